"""Rules of ``data:`` in a run and in scoring, on one machine and on workers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.backends import Backend, choose
from gpupipe.cli import main
from gpupipe.config import Config, parse_config
from gpupipe.errors import ArtifactError, ConfigError, SchemaError
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.scoring.cluster import score_on_workers
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.partitions import rules
from gpupipe.pipeline.api.pipeline import Pipeline
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.table.device.frame_columns import DeviceText
from gpupipe.table.encode import encode
from gpupipe.training.preparation.read_stage import read_on_workers, read_table
from gpupipe.training.preparation.rules import enforce
from tests.inline_workers import InlineWorkers

N = 240
RULES: dict[str, Any] = {
    "id": {"unique": True, "nulls": False},
    "tenure": {"dtype": "int", "range": [0, 100], "nulls": False},
    "plan": {"set": ["monthly", "yearly"]},
    "since": {"range": ["2020-01-01", None]},
    "mail": {"regex": ".+@.+", "otherwise": "warn"},
    "left": {"set": ["yes", "no"]},
}
SERVED = [  # to the user of a model, who cannot change its rules
    "6 rules of the model violated:",
    "  id: 1 row violates nulls: false: row 200: null",
    "  id: 2 rows violate unique: true: row 3: 'c230'; row 230: 'c230'",
    "  tenure: 1 row violates dtype: int: row 149: 1.5",
    "  tenure: 2 rows violate range: [0, 100]: row 16: 130; row 180: -4 (the column ranges from -4 to 130)",
    "  plan: 1 row violates set: [monthly, yearly]: row 90: 'weekly'",
]
BROKEN = """\
6 rules of `data:` violated:
  id: 1 row violates nulls: false: row 200: null (accepted with nulls: true)
  id: 2 rows violate unique: true: row 3: 'c230'; row 230: 'c230' (accepted with unique: false)
  tenure: 1 row violates dtype: int: row 149: 1.5
  tenure: 2 rows violate range: [0, 100]: row 16: 130; row 180: -4 (the column ranges from -4 to 130)
  plan: 1 row violates set: [monthly, yearly]: row 90: 'weekly' (accepted with 'weekly' in the set)
  since: 1 row violates range: [2020-01-01, null]: row 239: 1999-12-31 (the column ranges from 1999-12-31 to 2024-08-26)
  mail: 1 row violates regex: .+@.+: row 60: 'no-at-sign' (only warns)
"""


def good() -> pd.DataFrame:
    rows = range(N)
    return pd.DataFrame(
        {
            "id": [f"c{i}" for i in rows],
            "tenure": [float(i * 7 % 73) for i in rows],
            "plan": ["monthly" if i % 3 else "yearly" for i in rows],
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(pd.Series(rows).mod(239), "D"),
            "mail": [f"u{i}@example.org" for i in rows],
            "left": ["yes" if i * 7 % 73 > 30 + i % 20 else "no" for i in rows],
        }
    )


def bad() -> pd.DataFrame:
    frame = good()
    frame.loc[[16, 149, 180], "tenure"] = [130.0, 1.5, -4.0]
    frame.loc[90, "plan"], frame.loc[60, "mail"], frame.loc[3, "id"] = "weekly", "no-at-sign", "c230"
    frame.loc[239, "since"], frame.loc[200, "id"] = pd.Timestamp("1999-12-31"), None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules")
    for name, frame in {"good": good(), "bad": bad()}.items():
        frame.to_parquet(path / f"{name}.parquet", row_group_size=50)
        (path / name).mkdir()
        for i in range(3):
            frame[i * 100 : i * 100 + 100].to_csv(path / name / f"{i}.csv", index=False)
    return path


@pytest.fixture(scope="module")
def backend() -> Backend:
    return choose("cpu")


def configured(path: Path, rules: Any = None, **more: Any) -> Config:
    source = {"path": str(path), "target": "left", "drop": ["id", "mail"], "cache": False, **more.pop("source", {})}
    models = {"models": ["logistic_regression"], "report": {"plots": False}, "evaluate": {"importance": False}}
    return parse_config({"source": source, "data": RULES if rules is None else rules, **models, **more})


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    rules = RULES | {"mail": {"regex": "[a-z]+@.+", "otherwise": "warn"}, "t*": {"range": [0, 60], "otherwise": "warn"}}
    return run_pipeline(configured(folder / "good.parquet", rules), folder / "run")


@pytest.fixture(scope="module")
def model(run: Run) -> Model:
    return load_model(run.path)


def test_all_violations_are_reported_together(folder: Path, backend: Backend) -> None:
    with pytest.raises(SchemaError) as caught:
        read_table(configured(folder / "bad.parquet"), backend)
    assert str(caught.value).startswith(BROKEN)
    assert caught.value.where == f"{folder}/bad.parquet; rows are counted from 0"


@pytest.mark.parametrize("n", [1, 3, 7])
def test_workers_find_the_same_violations_as_one_machine(folder: Path, backend: Backend, n: int) -> None:
    with pytest.raises(SchemaError) as caught:
        read_on_workers(configured(folder / "bad.parquet"), InlineWorkers(backend, n, copies=True), backend)
    assert str(caught.value).startswith(BROKEN)
    spread = read_on_workers(configured(folder / "good.parquet"), InlineWorkers(backend, n, copies=True), backend)
    assert spread.table.schema.names == ("tenure", "plan", "since", "left")


def test_texts_that_are_too_many_to_gather_at_once_are_gathered_in_shares(
    folder: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "TEXTS_AT_ONCE", 1_000)
    config = configured(folder / "bad.parquet", {"id": {"unique": True}, "mail": {"unique": True}})
    with pytest.raises(SchemaError, match=r"violated:\n  id: 2 rows .*row 3: 'c230'; row 230: 'c230'"):
        read_on_workers(config, InlineWorkers(backend, 3, copies=True), backend)


def test_rows_of_several_files_are_those_of_their_file(folder: Path, backend: Backend) -> None:
    config = configured(folder / "bad", {"tenure": RULES["tenure"]}, source={"where": "left != 'maybe'"})
    with pytest.raises(SchemaError) as caught:
        read_table(config, backend)
    assert "row 16 of 0.csv: 130; row 80 of 1.csv: -4" in str(caught.value)
    assert caught.value.where.endswith("counted from 0, after source.where, in each file")


@pytest.mark.parametrize("drop", [["id", "mail"], ["@text", "i*"]])
def test_excluded_columns_are_read_for_their_rules_alone(folder: Path, backend: Backend, drop: list[str]) -> None:
    source = {"drop": drop}
    plain = read_table(configured(folder / "good.parquet", {}, source=source), backend)
    ruled = read_table(configured(folder / "good.parquet", source=source), backend)
    assert ruled.table.schema == plain.table.schema and ruled.rules.broken == ()
    with pytest.raises(SchemaError, match="'c230'"):
        read_table(configured(folder / "bad.parquet", source=source), backend)


def test_columns_that_are_not_among_those_asked_for_are_read_for_their_rules(folder: Path, backend: Backend) -> None:
    source = {"columns": ["tenure", "plan"], "drop": []}
    assert read_table(configured(folder / "good.parquet", source=source), backend).table.schema.names == (
        "tenure", "plan", "left"
    )  # fmt: skip
    with pytest.raises(SchemaError, match="'c230'"):
        read_table(configured(folder / "bad.parquet", source=source), backend)


def test_a_glob_matches_existing_columns(folder: Path, backend: Backend) -> None:
    found = read_table(configured(folder / "bad.parquet", {"*": {"nulls": False}}), backend)
    assert [each.column for each in found.rules.served] == ["tenure", "plan", "since"]
    named = configured(folder / "good.parquet", {"id": {"unique": True}, "@all": {"nulls": False}})
    served = read_table(named, backend).rules.served
    assert [(each.column, each.rules.names) for each in served][:2] == [("id", ["unique"]), ("tenure", ["nulls"])]


def test_columns_of_a_joined_table_have_rules_too(folder: Path, backend: Backend, tmp_path: Path) -> None:
    pd.DataFrame({"plan": ["monthly", "yearly"], "price": [10.0, -100.0]}).to_csv(tmp_path / "plans.csv", index=False)
    tables = {"plans": {"path": str(tmp_path / "plans.csv"), "on": "plan", "cardinality": "many_to_one"}}
    config = configured(folder / "good.parquet", {"price": {"range": [0, None]}, "id": {"unique": True}}, tables=tables)
    with pytest.raises(SchemaError, match=r"price: 80 rows violate range: \[0, null\]: row 0: -100; row 3: -100"):
        read_table(config, backend)


def test_an_encoded_table_from_the_cache_has_the_same_rules(folder: Path, backend: Backend, tmp_path: Path) -> None:
    cached = configured(folder / "bad.parquet", source={"cache": str(tmp_path)})
    for _ in range(2):
        with pytest.raises(SchemaError) as caught:
            read_table(cached, backend)
        assert str(caught.value).startswith(BROKEN)
        assert len(list(tmp_path.glob("?" * 64))) == 1
    unruled = read_table(cached.model_copy(update={"data": {}}), backend)
    assert "id" not in unruled.table.schema


def test_rules_also_apply_to_tables_with_derived_columns(folder: Path, backend: Backend) -> None:
    features = [{"lag": {"key": "plan", "time": "since", "columns": "tenure"}}]
    with pytest.raises(SchemaError) as caught:
        read_table(configured(folder / "bad.parquet", features=features), backend)
    assert str(caught.value).startswith(BROKEN)
    found = read_table(configured(folder / "good.parquet", features=features), backend)
    assert found.sources is not None
    assert "id" not in found.sources.main.raw_columns
    with pytest.raises(SchemaError, match="6 rules"):
        Pipeline(configured(folder / "bad.parquet")).features(bad())


def test_texts_that_a_device_drops_are_checked_as_the_host_reads_them(folder: Path, backend: Backend) -> None:
    config = configured(folder / "bad.parquet", {"id": RULES["id"], "mail": {"regex": ".+@.+"}, "plan": RULES["plan"]})
    table = encode(pa.Table.from_pandas(bad()), backend)
    texts = {name: DeviceText(np.asarray(text.is_null()), backend) for name, text in table.texts.items()}
    with pytest.raises(SchemaError) as caught:
        enforce(replace(table, texts=texts), config, backend)
    assert [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:5]] == ["plan", "id", "id", "mail"]
    assert "row 3: 'c230'; row 230: 'c230'" in str(caught.value) and "row 60: 'no-at-sign'" in str(caught.value)


@pytest.mark.parametrize(
    ("rules", "what", "fix"),
    [
        ({"tenur": {"nulls": False}}, "no column 'tenur' for a rule", "did you mean 'tenure'?"),
        ({"x*": {"nulls": False}}, "no column matches 'x*' for a rule", "the columns are"),
        ({"tenure": {"regex": "a"}}, "regex does not apply to column 'tenure', which is numeric", "declare the column"),
    ],
)
def test_a_rule_without_a_suitable_column_is_a_configuration_error(
    folder: Path, backend: Backend, rules: Any, what: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table(configured(folder / "good.parquet", rules), backend)
    assert what in str(caught.value) and fix in caught.value.fix
    assert caught.value.where.startswith(f"data.{next(iter(rules))}")


def test_warnings_are_logged_and_recorded_in_the_report(run: Run) -> None:
    said = [note.text for note in run.timeline.all_notes("warning")]
    assert said[1].startswith("mail: 240 rows violate regex: [a-z]+@.+: row 0: 'u0@example.org'; row 1:")
    assert said[0].startswith("tenure: 39 rows violate range: [0, 60]: row 9: 63;")
    assert "39 rows violate range: [0, 60]" in (run.path / "report.html").read_text()


def test_the_model_keeps_the_rules_but_those_of_the_target(run: Run, model: Model) -> None:
    kept = json.loads((run.path / "model" / "manifest.json").read_text())["data"]
    assert [(each["column"], each["kind"]) for each in kept] == [
        ("id", "text"), ("tenure", "numeric"), ("tenure", "numeric"), ("plan", "categorical"), ("since", "datetime"),
        ("mail", "text"),
    ]  # fmt: skip
    assert model.inputs == ("tenure", "plan", "since")
    assert model.verify().passed  # with rows that no rule would let through


@pytest.mark.parametrize("kind", ["frame", "arrow", "path"])
def test_a_table_that_breaks_the_rules_is_not_predicted(folder: Path, model: Model, kind: str) -> None:
    table = {"frame": bad(), "arrow": pa.Table.from_pandas(bad()), "path": folder / "bad.parquet"}[kind]
    with pytest.raises(SchemaError) as caught:
        model.predict(table)
    lines = str(caught.value).splitlines()
    assert lines[:6] == SERVED
    assert caught.value.where.startswith(f"{folder}/bad.parquet" if kind == "path" else "the given table")


def test_a_table_with_warnings_is_predicted_and_reported(model: Model) -> None:
    frame = good()
    model.backend.take_notes()
    assert len(model.predict(frame)) == N
    assert [text.partition(":")[0] for text in model.backend.take_notes()] == ["tenure", "mail"]


def test_columns_that_the_model_does_not_read_may_be_absent(model: Model) -> None:
    frame = good().drop(columns=["id", "mail", "left"])
    assert len(model.predict(frame)) == N and len(model.predict(frame[:0])) == 0
    with pytest.raises(SchemaError, match="not in the data: plan"):
        model.predict(frame.drop(columns="plan"))


def test_unique_is_checked_per_input_table(model: Model) -> None:
    first = good()[:1]
    assert model.predict(first) == model.predict(first)
    with pytest.raises(SchemaError, match="unique: true: row 0: 'c0'; row 1: 'c0'"):
        model.predict(pd.concat([first, first]))


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
def test_levels_unseen_in_training_are_checked_by_value(run: Run, folder: Path, tmp_path: Path) -> None:
    config = configured(folder / "good.parquet", {"plan": {"regex": "[a-z]+"}})
    model = load_model(run_pipeline(config, tmp_path / "run").path)
    frame = good()
    frame.loc[5, "plan"] = "weekly"
    assert len(model.predict(frame)) == N
    frame.loc[6, "plan"] = "Weekly"
    with pytest.raises(SchemaError, match=r"plan: 1 row violates regex: \[a-z\]\+: row 6: 'Weekly'"):
        model.predict(frame)


@pytest.mark.parametrize("n", [1, 3])
def test_workers_check_all_rows_before_scoring_any(folder: Path, model: Model, tmp_path: Path, n: int) -> None:
    workers = InlineWorkers(model.backend, n, copies=True)
    model.backend.take_notes()
    with pytest.raises(SchemaError) as caught:
        score_on_workers(model, str(folder / "bad.parquet"), tmp_path, workers)
    assert str(caught.value).splitlines()[:6] == SERVED
    assert list(tmp_path.iterdir()) == []
    said: list[str] = []
    settings = ScoringSettings(log=said.append)
    assert score_on_workers(model, str(folder / "good.parquet"), tmp_path, workers, settings).n_rows == N
    assert [text.partition(":")[0] for text in said] == ["tenure", "mail"]


def test_the_command_line_exits_with_5_and_reports_warnings(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def predict(name: str) -> tuple[int, str]:
        arguments = ["predict", str(run.path), str(folder / name), "-o", str(tmp_path / "p.csv")]
        code = main(arguments)
        return code, capsys.readouterr().err

    code, said = predict("bad.parquet")
    assert code == 5 and "row 16: 130; row 180: -4" in said
    assert not (tmp_path / "p.csv").exists()
    code, said = predict("good.parquet")
    assert code == 0 and "tenure: 39 rows violate range: [0, 60]" in said


def test_an_invalid_rule_prevents_loading_a_model(run: Run, model: Model) -> None:
    from gpupipe.artifact import ArtifactReader
    from gpupipe.inference.model import open_model

    for said in ([{"column": "id", "kind": "odd", "format": None, "rules": {"nulls": False}}], [{"column": "id"}], [7]):
        reader = ArtifactReader(run.path / "model")
        reader.manifest["data"] = said
        with pytest.raises(ArtifactError, match=r"manifest\.json is invalid: data\[0\]"):
            open_model(reader, model.backend, False)
