"""Code named in a configuration: `check` and `plan` report that they ran it, and `--no-code` refuses it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from gpupipe.cli import main

HOOK = """\
from pathlib import Path

Path(__file__).with_name("imported").touch()


def same(frame):
    return frame
"""
KERNEL = 'import gpupipe\n\n\n@gpupipe.kernel(out="float32", nulls="propagate")\ndef half(a):\n    return a / 2.0\n'
CONFIG = "source: {path: t.csv, target: y, prepare: 'hook.py:same'}\nmodels: [gaussian_nb]\n"
MORE = "features: [{kernel: {use: 'kernel.py:half', inputs: [a]}}]\nmodels: [{estimator: {use: 'hook.py:same'}}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(["a,y", *(f"{i},{i % 2}" for i in range(60))]))
    Path("hook.py").write_text(HOOK)
    Path("kernel.py").write_text(KERNEL)
    Path("hook.yaml").write_text(CONFIG)
    Path("all.yaml").write_text(CONFIG.splitlines(keepends=True)[0] + MORE)
    return tmp_path


@pytest.mark.parametrize("command", ["check", "plan"])
def test_code_that_ran_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "hook.yaml"]) == 0
    assert "ran code of the configuration: hook.py:same" in capsys.readouterr().out
    assert Path("imported").exists()


@pytest.mark.parametrize("command", ["check", "plan"])
def test_code_is_not_run_on_request(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "all.yaml", "--no-code"]) == 2
    said = capsys.readouterr().err
    for setting in (
        "source.prepare: hook.py:same",
        "features[0].kernel.use: kernel.py:half",
        "models[0].estimator.use: hook.py:same",
    ):
        assert setting in said
    assert main(["check", "all.yaml", "--no-data", "--no-code"]) == 0
    assert not Path("imported").exists()
    assert main([command, "hook.yaml", "--no-code", "--set", "source.prepare=null"]) == 0


TABLES = """\
source: {path: t.csv, target: y}
tables:
  sizes: {sql: "SELECT 1 AS a, 'b' AS size", uri: "duckdb://", on: a, cardinality: many_to_one}
models: [gaussian_nb]
"""
QUERY = "source: {sql: \"FROM 't.csv'\", uri: 'duckdb://', target: y}\nmodels: [gaussian_nb]\n"


@pytest.mark.parametrize(
    ("text", "setting"), [(QUERY, "source.sql: the query of duckdb://"), (TABLES, "tables.sizes.sql: the query of")]
)
def test_a_query_is_code(
    text: str, setting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("query.yaml").write_text(text)
    assert main(["check", "query.yaml"]) == 0
    assert "ran code of the configuration: the query of duckdb://" in capsys.readouterr().out
    monkeypatch.setattr(duckdb, "connect", None)  # a query that runs would fail with exit code 1
    for command in (["check"], ["plan"], ["gpus"]):
        assert main([*command, "query.yaml", "--no-code"]) == 2
        assert setting in capsys.readouterr().err
    assert main(["check", "query.yaml", "--no-data"]) == 0


def test_classes_of_a_catalog_are_code(capsys: pytest.CaptureFixture[str]) -> None:
    catalog = "{type: rest, uri: 'http://127.0.0.1:9', py-io-impl: package.Reader}"
    text = f"source: {{iceberg: a.b, target: y, catalog: {catalog}}}\nmodels: [gaussian_nb]\n"
    Path("iceberg.yaml").write_text(text)
    assert main(["check", "iceberg.yaml", "--no-code"]) == 2
    assert "source.catalog.py-io-impl: package.Reader" in capsys.readouterr().err
