"""``--source isolate=true`` and ``isolate: true``: the configuration, the model, and the tables that it scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.config import load_config
from gpupipe.errors import DataError
from gpupipe.inference.scoring.local import adjust_tables
from gpupipe.io import isolation as trial
from gpupipe.io.settings import TableSource
from gpupipe.pipeline.run import run_pipeline

CONFIG = """\
source: {{path: t.csv, target: y{isolate}}}
models: [gaussian_nb]
report: {{enabled: false}}
"""
ROWS = [f"{i % 50},{'ab'[i % 2]},{'yes' if i % 50 > 25 else 'no'}" for i in range(200)]
CRASHED = "its reader crashed (SIGSEGV)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table that crashes the strange reader, and models trained with and without isolation."""
    folder = tmp_path_factory.mktemp("isolate")
    for name in ("t", "crash"):
        (folder / f"{name}.csv").write_text("\n".join(["age,plan,y", *ROWS]))
    for name, isolate in (("plain", ""), ("isolated", ", isolate: true")):
        (folder / f"{name}.yaml").write_text(CONFIG.format(isolate=isolate))
        run_pipeline(load_config(folder / f"{name}.yaml"), folder / name)
    trial.forget()
    return folder


@pytest.fixture(autouse=True)
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch, strange_reader: Path) -> Iterator[None]:
    monkeypatch.chdir(folder)
    trial.end_trials()
    yield
    trial.end_trials()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("predict plain crash.csv -o scores.csv --quiet", 0),
        ("predict plain crash.csv -o scores.csv --isolate --force", 5),
        ("predict isolated crash.csv -o scores.csv --force", 5),
        ("predict isolated crash.csv -o scores.csv --force --quiet --source isolate=false", 0),
        ("init crash.csv --target y --isolate", 5),
        ("init crash.csv --source isolate=true", 5),
        ("check isolated.yaml --set source.path=crash.csv", 5),
        ("plan isolated.yaml --set source.path=crash.csv", 5),
    ],
)
def test_every_command_that_reads_isolates(command: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == code
    said = capsys.readouterr().err
    assert (CRASHED in said and "crash.csv" in said) is (code == 5)
    assert not Path("crash.yaml").exists()


def test_a_model_isolates_tables_to_score_if_its_training_table_was_isolated(folder: Path) -> None:
    assert [gp.load_model(folder / name).source_of("x").isolate for name in ("plain", "isolated")] == [False, True]
    assert len(gp.load_model(folder / "isolated").predict(folder / "t.csv")) == 200
    with pytest.raises(DataError, match="its reader crashed"):
        gp.load_model(folder / "isolated").predict(folder / "crash.csv")


def test_further_tables_are_read_with_the_flags_of_the_rows_to_score() -> None:
    event_source = TableSource(path="t.csv")
    model: Any = SimpleNamespace(
        source_of=lambda path: TableSource(path=path),
        event_source=lambda name, path: event_source.model_copy(update={"path": path}),
        events=SimpleNamespace(tables={"events": None}),
    )
    tables = {"events": "crash.csv", "unknown": "crash.csv"}
    assert adjust_tables(model, tables, lambda source: source) == tables
    adjusted = adjust_tables(model, tables, lambda source: source.model_copy(update={"outside_files": True}))
    assert adjusted == {**tables, "events": TableSource(path="crash.csv", outside_files=True)}
    with pytest.raises(DataError, match="its reader crashed"):
        adjust_tables(model, tables, lambda source: source.model_copy(update={"isolate": True}))
