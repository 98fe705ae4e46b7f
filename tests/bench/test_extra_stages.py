"""The encoded cache and serving."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.bench.models import choose_model
from gpupipe.bench.stages import run_extras
from gpupipe.config import load_config

READS = {"read", "read_pass", "cache_store", "cache_load", "cache_pass"}


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_reads_and_serving_are_timed(kind: str, request: pytest.FixtureRequest) -> None:
    config = load_config(request.getfixturevalue(kind))
    report = run_extras(config, choose_model(config, None))
    assert set(report["stages_s"]) == set(report["stages_cpu_s"]) == {*READS, "serve_transform_all"}
    assert (report["rows"], report["notes"]) == (300, [])


def test_the_cache_is_deleted(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("GPUPIPE_CACHE", str(tmp_path / "cache"))
    run_extras(load_config(binary), None)
    assert not (tmp_path / "cache").exists()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_cache_that_stores_nothing_is_noted_instead_of_measured(
    binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPIPE_CACHE_LIMIT", "10B")
    report = run_extras(load_config(binary), None)
    assert not READS & {"cache_load", "cache_pass"} & set(report["stages_s"])
    assert "could not be measured" in report["notes"][0]
