"""``python -m benchmarks.answers``: the same folds for all contenders, no test target in their files, own scores."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.answers.cells import Contender, Resources, write_files
from benchmarks.answers.contenders.exchange import TEST_FILE, TRAIN_FILE, AnswerTask
from benchmarks.answers.contenders.gpupipe_run import adapt_config
from benchmarks.answers.published import published_score, rank_published, read_published
from benchmarks.answers.records import CellRecord, append_record, read_records
from benchmarks.answers.runner import PlannedCell, plan_cells, run_cells
from benchmarks.answers.scoring import score_predictions
from benchmarks.answers.splits import FOLDS, fold_count, make_fold
from benchmarks.answers.summary import render, summarize
from benchmarks.answers.tables import TABLES, AnswerTable, Task

LINEAR = [{"logistic_regression": {"C": 1.0}}]
RESOURCES = Resources(limit_s=5.0, cores=1, timeout_s=300.0)
PYTHON = Path(sys.executable)


def _table(task: Task = "binary", **special: object) -> AnswerTable:
    return AnswerTable("small", "made up", "", "y", task, 240, 3, "none", **special)  # type: ignore[arg-type]


@pytest.fixture
def small() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x = generator.normal(size=240)
    return pd.DataFrame({
        "x": x,
        "noise": generator.normal(size=240),
        "letter": generator.choice(list("abc"), 240),
        "household": np.arange(240) // 4,
        "elapsed": np.arange(240) // 3 * 1.0,
        "y": np.where(x + generator.normal(size=240) > 0, "class good", "class bad"),
    })  # fmt: skip


@pytest.mark.nightly
def test_contenders_are_scored_on_the_same_rows_and_a_second_run_skips_them(
    small: pd.DataFrame, tmp_path: Path
) -> None:
    table = _table()
    small = small.drop(columns=["household", "elapsed"])
    small.to_parquet(tmp_path / "small.parquet", index=False)
    contenders = [
        Contender("gpupipe", "gpupipe_run", PYTHON, {"models": LINEAR}),
        Contender("sklearn", "sklearn_plain", PYTHON, {"model": "linear"}, is_limited=False),
        Contender("broken", "sklearn_plain", PYTHON, {"model": "no such model"}),
    ]
    cells, output = plan_cells([table], contenders, 1), tmp_path / "results.jsonl"
    records = list(run_cells(cells, tmp_path, output, RESOURCES, allow_busy=True))
    assert [record.contender for record in records] == ["gpupipe", "sklearn", "broken"]
    ours, plain, broken = records
    train, test = next(StratifiedKFold(5, shuffle=True, random_state=0).split(small, small["y"]))
    assert (ours.n_train, ours.n_test) == (plain.n_train, plain.n_test) == (len(train), len(test))
    # The label depends on x alone, so that both linear models order the rows nearly as x does.
    expected = roc_auc_score(small["y"].iloc[test] == "class good", small["x"].iloc[test])
    assert [ours.score, plain.score] == pytest.approx([expected, expected], abs=0.02)
    assert (ours.label, plain.label) == ("gpupipe@5", "sklearn")
    assert "KeyError" in broken.error and broken.score is None
    assert ours.peak_memory_mib > 50
    assert list(run_cells(cells, tmp_path, output, RESOURCES, allow_busy=True)) == []
    retried = list(run_cells(cells, tmp_path, output, RESOURCES, allow_busy=True, retry=True))
    assert [record.contender for record in retried] == ["broken"]
    assert len(read_records([output])) == 3


def test_files_of_a_contender_have_no_target_of_the_test_rows(small: pd.DataFrame, tmp_path: Path) -> None:
    table = _table(group="household")
    small["row"] = np.arange(len(small))
    small["y"] = [f"class {name}" for name in small["row"] % 2]
    task = AnswerTask("y", "binary", "roc_auc", 1.0, 1)
    truth = write_files(table, small, 1, task, tmp_path)
    train, test = pd.read_parquet(tmp_path / TRAIN_FILE), pd.read_parquet(tmp_path / TEST_FILE)
    assert set(test.columns) == set(train.columns) - {"y"}
    assert truth.tolist() == [f"class {row % 2}" for row in test["row"]]
    assert sorted([*train["row"], *test["row"]]) == list(range(len(small)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task.json", TEST_FILE, TRAIN_FILE]
    assert json.loads((tmp_path / "task.json").read_text())["target"] == "y"


def test_folds_test_each_row_once_and_keep_groups_together(small: pd.DataFrame) -> None:
    for table in (_table(), _table(group="household"), _table("regression", group="household"), _table("regression")):
        folds = [make_fold(table, small, fold) for fold in range(FOLDS)]
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(len(small)))
        for train, test in folds:
            assert not set(train) & set(test)
            if table.group:
                assert not set(small["household"].iloc[train]) & set(small["household"].iloc[test])


def test_folds_by_time_train_on_earlier_rows_only(small: pd.DataFrame) -> None:
    shuffled = small.sample(frac=1, random_state=1, ignore_index=True)
    tested = []
    for fold in range(FOLDS):
        train, test = make_fold(_table(time="elapsed"), shuffled, fold)
        assert shuffled["elapsed"].iloc[train].max() < shuffled["elapsed"].iloc[test].min()
        tested += shuffled["elapsed"].iloc[test].tolist()
    assert len(tested) == pytest.approx(len(small) / 2, abs=3)  # five tenths: the latest rows, each once
    assert sorted(tested) == sorted(small["elapsed"])[-len(tested) :]
    train, test = make_fold(_table(time="elapsed", cutoff=60.0), shuffled, 0)
    assert (shuffled["elapsed"].iloc[test] >= 60).all() and len(train) + len(test) == len(small)
    assert fold_count(_table(time="elapsed", cutoff=60.0)) == 1


@pytest.mark.parametrize(
    ("predictions", "metric", "reason"),
    [
        ({"class a": [0.5], "class b": [0.5]}, "log_loss", "expected 3 predictions, found 1"),
        ({"class a": [1.0, 1.0, 1.0]}, "log_loss", "no column class b"),
        ({"prediction": [0.0, np.nan, 1.0]}, "r2", "1 predictions are not finite"),
    ],
)
def test_unusable_predictions_have_no_score(predictions: dict[str, list[float]], metric: str, reason: str) -> None:
    truth = pd.Series([0.0, 1.0, 2.0] if metric == "r2" else ["class a", "class b", "class a"])
    with pytest.raises(ValueError, match=reason):
        score_predictions(pd.DataFrame(predictions), truth, metric)


def _record(table: str, fold: int, contender: str, metric: str, score: float | None) -> CellRecord:
    error = "" if score is not None else "exit code 1"
    return CellRecord(table, fold, contender, 60.0, metric, score, error, 1.0, 0.1, 1.2, 100.0, 80, 20, {}, "", "2026")


def test_differences_are_positive_where_a_contender_is_better_and_compare_common_folds() -> None:
    records = [
        _record("telco-churn", 0, "autogluon", "roc_auc", 0.80),
        _record("telco-churn", 1, "autogluon", "roc_auc", 0.84),
        _record("telco-churn", 0, "gpupipe", "roc_auc", 0.81),
        _record("telco-churn", 1, "gpupipe", "roc_auc", 0.86),
        _record("telco-churn", 2, "gpupipe", "roc_auc", 0.50),  # the reference lacks this fold
        _record("keel-letter", 0, "autogluon", "log_loss", 0.10),
        _record("keel-letter", 0, "gpupipe", "log_loss", 0.13),
        _record("diamonds", 0, "autogluon", "r2", 0.98),
        _record("diamonds", 0, "gpupipe", "r2", None),
    ]
    summary = summarize(records, "autogluon@60")
    ours = summary["contenders"]["gpupipe@60"]
    assert (ours["wins"], ours["losses"], ours["compared_tables"]) == (1, 1, 2)
    assert ours["mean_difference"] == pytest.approx((0.015 - 0.03) / 2)
    assert ours["mean_difference_by_metric"] == {"log_loss": pytest.approx(-0.03), "roc_auc": pytest.approx(0.015)}
    assert [failure["table"] for failure in ours["failures"]] == ["diamonds"]
    rows = {row["table"]: row for row in summary["tables"]}
    assert rows["telco-churn"]["differences"]["gpupipe@60"] == {"mean": 0.015, "std": 0.00707, "folds": 2}
    assert "| telco-churn | 7,043 | shuffled | roc_auc | 0.8200 ± 0.0283 | +0.0150 ± 0.0071 |" in render(summary)
    with pytest.raises(ValueError, match="no result of 'flaml@60'"):
        summarize(records, "flaml@60")


def test_a_result_that_a_kill_cut_off_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first, second = (_record("diamonds", fold, "gpupipe", "r2", 0.9) for fold in range(2))
    append_record(path, first)
    append_record(path, second)
    path.write_bytes(path.read_bytes()[:-20])
    assert read_records([path]) == [first]
    append_record(path, second)
    assert read_records([path]) == [first, second]
    path.write_bytes(b"no result\n" + path.read_bytes())
    with pytest.raises(ValueError, match="line 1: expected a result as JSON"):
        read_records([path])


def test_generated_features_come_before_the_encoding_of_all_columns() -> None:
    written: dict[str, Any] = {
        "source": {"target": "y", "drop": ["elapsed", "id"]}, "features": [{"log1p": ["x"]}, {"auto": "@all"}],
        "models": [], "evaluate": {"metrics": ["accuracy"]},
    }  # fmt: skip

    def adapted(**options: Any) -> dict[str, Any]:
        task = AnswerTask("y", "binary", "roc_auc", 60.0, 2, time="elapsed", options=options)
        return adapt_config(copy.deepcopy(written), task, 20_000)

    best = adapted(models="best", generate=True)
    no_time = {"drop": ["elapsed"]}  # other contenders do not have it either
    assert best["features"] == [no_time, {"log1p": ["x"]}, "generate", {"auto": "@all"}]
    assert best["models"] == [{"best": {"time_limit": "60s"}}]
    assert best["split"] == {"time": "elapsed", "test_size": 0.01}
    assert best["source"]["drop"] == ["id"]  # the split needs the other
    assert best["evaluate"]["metrics"] == ["roc_auc", "accuracy"]  # the first one chooses the champion
    assert adapted(generate=True)["models"] == []
    assert adapted(generate=False)["features"] == [no_time, *written["features"]]


def test_small_tables_come_first_with_all_contenders() -> None:
    contenders = [Contender(name, "sklearn_plain", PYTHON) for name in ("a", "b")]
    by_time = next(table for table in TABLES if table.cutoff is not None)
    cells = plan_cells([TABLES[0], by_time], contenders, 2)
    named = [(cell.table.name, cell.fold, cell.contender.name) for cell in cells]
    first, second = TABLES[0].name, by_time.name
    assert named == [
        (first, 0, "a"), (first, 0, "b"), (second, 0, "a"), (second, 0, "b"), (first, 1, "a"), (first, 1, "b"),
    ]  # fmt: skip
    assert isinstance(cells[0], PlannedCell)


def test_registered_tables_have_a_reason_for_each_dropped_column_and_unique_names() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)
    assert sum(table.source != "shared" for table in TABLES) >= 20
    assert {table.split for table in TABLES} == {"shuffled", "group", "time"}
    for table in TABLES:
        assert all(table.drop.values()), table.name
        assert table.target not in table.drop
        assert table.n_rows >= 500
        assert table.n_features >= 4


def test_a_score_has_a_rank_among_published_ones(tmp_path: Path) -> None:
    rows = {
        "cls_bin.md": ("adult", "**0.8000+0.0010** | 0.7+0.1 | 0.75+0.0"),
        "cls_multi.md": ("letter", "nan | - | 0.9+0"),
    }
    rows["regression.md"] = ("Diamonds", "600.5+1.0 | *500+2* | 550+3")
    for name, (table, cells) in rows.items():
        head = "| Dataset | dummy | knn | svm |\n| --- | --- | --- | --- |\n"
        (tmp_path / name).write_text(f"{head}| {table} | {cells} |\n", encoding="utf8")
    published = read_published(tmp_path)
    assert published["letter"] == ({"svm": 0.9}, False)
    blank: Any = dict.fromkeys(("fit_s", "predict_s", "wall_s", "peak_memory_mib", "n_train", "n_test"))
    own: list[tuple[str, int, float | None]] = [("adult-income", 0, 0.72), ("adult-income", 1, 0.78)]
    own += [("diamonds", 0, 520.0), ("keel-letter", 0, None)]
    records = [CellRecord(t, f, "own", 60.0, "", 0.0, "", **blank, published=score) for t, f, score in own]
    adult, diamonds = rank_published(records, "own@60", published)
    assert (adult.rank, adult.n_folds, adult.best_method) == (1.5, 2, "svm")  # 0.75 as svm; dummy does not count
    assert (diamonds.rank, diamonds.best_score) == (2, 500)
    truth = pd.Series(["a", "b", "b"])
    probability = pd.DataFrame({"a": [0.9, 0.2, 0.6], "b": [0.1, 0.8, 0.4]})
    assert published_score(probability, truth, "log_loss") == pytest.approx(2 / 3)
    assert published_score(pd.DataFrame({"prediction": [1.0, 4.0]}), pd.Series([1.0, 2.0]), "r2") == pytest.approx(
        2**0.5
    )
