"""Import checks, each in a real process, with fake packages that fail as real ones do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor import imports
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.imports import ImportTrial, import_findings, try_imports

NO_GPU = GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")


@pytest.fixture
def said(site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that gives the findings on the packages in the folder, and on no other."""

    def run(gpu: GpuProbe = NO_GPU) -> dict[str, Finding]:
        monkeypatch.setattr(imports, "_is_there", lambda module: (site.folder / module).exists())
        monkeypatch.syspath_prepend(str(site.folder))
        return {finding.check: finding for finding in import_findings(site.read(), gpu, 60)}

    return run


def test_a_package_that_imports_is_ok(site: Any, said: Any) -> None:
    site.add("cudf-cu13", "26.10.2")
    site.module("cudf", "print('hello')")
    assert said() == {"cudf": Finding("ok", "cudf", "cudf-cu13 26.10.2; can be imported")}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.abort()", "import failed: crashed (SIGABRT): no error output"),
        (
            "raise ImportError('libcudart.so.12: gone')",
            "import failed: ImportError: libcudart.so.12: gone",
        ),
        ("raise SystemExit(3)", "import failed: no error output"),
        ("import os, sys; print('no GPU', file=sys.stderr); sys.stderr.flush(); os._exit(1)", "import failed: no GPU"),
        ("import os; os.kill(os.getpid(), 11)", "import failed: crashed (SIGSEGV): no error output"),
    ],
)
def test_a_package_that_crashes_is_reported_and_doctor_survives(site: Any, said: Any, code: str, words: str) -> None:
    site.add("cudf-cu13", "26.10.2")
    site.module("cudf", code)
    finding = said()["cudf"]
    assert (finding.level, finding.found) == ("error", f"cudf-cu13 26.10.2; {words}")
    assert finding.fix == "pip install --force-reinstall 'cudf-cu13==26.10.2'"


def test_a_package_without_metadata_is_reinstalled_with_the_extra(site: Any, said: Any, gpu: GpuProbe) -> None:
    site.module("cudf", "raise ImportError('half of it')")
    assert said(gpu)["cudf"].fix == "pip install 'gpupipe[cuda13]'"


def test_an_import_that_hangs_is_ended(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site.module("endless", "import threading; threading.Event().wait()")
    monkeypatch.syspath_prepend(str(site.folder))
    assert try_imports(["endless"], 0.5) == ImportTrial("did not finish within 0.5 s")


def test_xgboost_without_cuda_is_an_error_on_a_gpu_machine_only(site: Any, said: Any, gpu: GpuProbe) -> None:
    site.add_gpupipe()
    site.add("xgboost-cpu", "3.4.0")
    site.add("cudf-cu13", "26.10.2")
    site.module("xgboost", "def build_info(): return {'USE_CUDA': False}")
    assert said()["xgboost"] == Finding("ok", "xgboost", "xgboost-cpu 3.4.0; can be imported, built without CUDA")
    finding = said(gpu)["xgboost"]
    assert finding.level == "error"
    wanted = "xgboost>=3.4" if sys.version_info >= (3, 12) else "xgboost-cu13<3.4,>=3.2"
    assert finding.fix == f"pip uninstall -y xgboost-cpu && pip install '{wanted}'"


def test_xgboost_and_torch_report_their_cuda_builds(site: Any, said: Any, gpu: GpuProbe) -> None:
    site.module("xgboost", "def build_info(): return {'USE_CUDA': True}")
    site.module("torch", "class version: cuda = '13.0'")
    assert {finding.found for finding in said(gpu).values()} == {"unknown version; can be imported, built with CUDA"}


def test_the_simulator_with_gpu_packages_is_an_error(site: Any, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert said() == {}
    site.add("cudf-cu13", "26.10.2")
    assert (said()["simulator"].level, said()["simulator"].fix) == ("error", "unset NUMBA_ENABLE_CUDASIM")


def test_the_current_folder_is_not_imported_from(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site.module("decoy", "")
    monkeypatch.chdir(site.folder)
    assert "decoy" not in sys.modules
    assert try_imports(["decoy"], 60).failure == "ModuleNotFoundError: No module named 'decoy'"


def test_cudf_is_not_reported_broken_if_only_row_stack_is_missing(site: Any, said: Any) -> None:
    """numba-cuda 0.30 with NumPy 2.5: a run adds the name back."""
    site.folder.joinpath("sitecustomize.py").write_text("import numpy\nvars(numpy).pop('row_stack', None)\n")
    site.module("cudf", "import numpy; numpy.row_stack")
    assert said()["cudf"].level == "ok"
