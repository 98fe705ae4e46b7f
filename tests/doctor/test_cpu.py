from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends import choose
from gpupipe.doctor import cpu
from gpupipe.doctor.cpu import cpu_findings
from gpupipe.doctor.finding import Finding
from gpupipe_kernels.code_cache import can_keep


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that gives the findings; of the libraries only one is imported, as it is quick."""
    monkeypatch.setattr(cpu, "LIBRARIES", ("json",))
    for name in ("OMP_NUM_THREADS", "GPUPIPE_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def run() -> dict[str, Finding]:
        return {finding.check: finding for finding in cpu_findings(60)}

    return run


def test_all_is_well_here(said: Any) -> None:
    findings = said()
    assert list(findings) == ["CPU path", "threads", "memory", "compiled code"]
    assert {finding.level for finding in findings.values()} == {"ok"}
    assert f"of {os.cpu_count()} cores" in findings["threads"].found
    assert "GiB free" in findings["memory"].found


def test_a_library_that_does_not_import_breaks_the_cpu_path(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "LIBRARIES", ("json", "no_such_library"))
    assert said()["CPU path"] == Finding(
        "error",
        "CPU path",
        "import failed: ModuleNotFoundError: No module named 'no_such_library'",
        "pip install --force-reinstall gpupipe",
    )


def test_a_wrong_number_of_threads_is_a_finding(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_THREADS", "many")
    finding = said()["threads"]
    assert (finding.level, finding.fix) == ("error", "set it to 1 or more, or unset it")


@pytest.mark.parametrize(
    ("value", "level"),
    [("1", "ok"), ("1,2", "ok"), ("9999", "warning"), ("all", "warning"), ("0", "warning")],
)
def test_openmp_variables_are_checked(said: Any, monkeypatch: pytest.MonkeyPatch, value: str, level: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert said()["OpenMP"].level == level


def test_code_that_cannot_be_kept_is_a_warning(said: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert said()["compiled code"].level == "warning"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new" / "cache"))
    assert said()["compiled code"].level == "ok"
    assert not (tmp_path / "new").exists()


def test_a_folder_of_compiled_code_that_others_can_write_to_is_a_warning(
    said: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    found = said()["compiled code"]
    assert found.level == "warning" and f"write to {tmp_path / 'shared'} (mode 777)" in found.found
    assert not can_keep()
    (note,) = choose("cpu").take_notes()
    assert "compiled code is not cached" in note and "chmod go-w" in note
