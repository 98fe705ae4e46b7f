"""Tests of the model card, README.md of a model directory, as an independent Markdown parser reads it."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import gpupipe as gp
from gpupipe.errors import ArtifactError
from gpupipe.inference.copy import copy_model
from gpupipe.pipeline.records.card.card import MOST_BYTES
from gpupipe.pipeline.records.card.markdown import MOST_CHARACTERS, code, prose, table
from gpupipe.report.text import METRIC_TITLES, printable

TREES: dict[str, Any] = {"xgboost": {"defaults": "library", "n_estimators": 10, "max_depth": 3}}
HUB_TASKS = {None, "tabular-classification", "tabular-regression"}
RUNS: dict[str, dict[str, Any]] = {
    "classes": {
        "source": "german-credit/german.csv", "target": "credit", "models": ["logistic_regression", "gaussian_nb"],
        "split": {"test_size": 0.3}, "evaluate": {"threshold": "best_f1"},
        "data": {"age": {"range": [18, None]}, "housing": {"set": ["A151", "A152", "A153"]}},
    },
    "numbers": {
        "source": "bike-sharing/bike.csv", "target": "cnt", "models": ["ridge"], "split": {"time": "instant"},
        "features": [{"standardize": "@numeric"}], "evaluate": {"intervals": 0.9, "importance": False},
    },
    "several": {
        "source": "german-credit/german.csv", "target": ["credit", "housing"], "models": [TREES], "split": {"cv": 3},
        "evaluate": {"intervals": 0.9},
    },
    "clusters": {
        "source": "german-credit/german.csv", "drop": ["credit"], "models": [{"kmeans": {"n_clusters": 3}}],
    },
}  # fmt: skip
MARKUP = {
    "html_inline",
    "html_block",
    "link_open",
    "image",
    "em_open",
    "strong_open",
    "s_open",
    "hardbreak",
    "softbreak",
}
HOSTILE = [
    "<script>alert(1)</script>", "a|b", "a\\|b", "`tick", "``", "new\nline", "# heading", "![x](y)", "[x](y)", "- item",
    "*star*", "_under_", "&lt;", "back\\", " edge ", "\u202ebidi", "$x$", "| - |", "1. one", '"quoted"',
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Callable[[str], gp.Run]:
    """Return a function that returns a finished run by its name, and runs it once."""
    done: dict[str, gp.Run] = {}

    def run(name: str) -> gp.Run:
        if name not in done:
            settings = dict(RUNS[name])
            source = data_dir / settings.pop("source")
            folder = tmp_path_factory.mktemp(name) / "run"
            done[name] = gp.Pipeline(source, report={"enabled": False}, **settings).run(folder, quiet=True)
        return done[name]

    return run


def card_of(run: gp.Run) -> str:
    return (run.path / "model/README.md").read_text(encoding="utf-8")


def parse(markdown: str) -> list[Token]:
    body = re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.DOTALL)  # the header is YAML
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body)


def text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def tables_of(markdown: str) -> list[list[list[str]]]:
    """Return the rows of each table, each a list of the texts of its cells."""
    found: list[list[list[str]]] = []
    for token in parse(markdown):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and len(found[-1]) and token.level >= 4:
            found[-1][-1].append(text_of(token))
    return found


def table_with(markdown: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table whose first column is named `head`, by their first cell."""
    rows = next(rows for rows in tables_of(markdown) if rows[0][0] == head)
    return {row[0]: row[1:] for row in rows[1:]}


@pytest.mark.parametrize("name", RUNS)
def test_a_card_has_the_recorded_metrics_and_valid_metadata(name: str, finished: Callable[[str], gp.Run]) -> None:
    run = finished(name)
    card, recorded = card_of(run), json.loads((run.path / "metrics.json").read_text())
    values, shown = recorded["models"][recorded["best"]], table_with(card, "metric")
    names = [each for each in values if not each.endswith("_std") and "[" not in each]
    assert list(shown) == [METRIC_TITLES[each] for each in names]
    for each in names:
        keys = [each, *(f"{each}[{target}]" for target in run.goal.names if run.goal.targets)]
        cells = [re.findall(r"-?[\d.]+", cell.replace(",", "")) for cell in shown[METRIC_TITLES[each]][1:]]
        expected = [[values[key], *([values[f"{key}_std"]] if f"{key}_std" in values else [])] for key in keys]
        np.testing.assert_allclose(np.array(cells, float), expected, rtol=1e-2, atol=1e-4)
    header = yaml.safe_load(card.split("---\n")[1])
    assert header.keys() <= {"library_name", "pipeline_tag", "tags"}
    assert header.get("pipeline_tag") in HUB_TASKS
    assert all(isinstance(tag, str) for tag in header["tags"])
    manifest = run.model.manifest
    assert table_with(card, "file").keys() == manifest["files"].keys()
    assert not {child.type for token in parse(card) for child in token.children or []} & MARKUP


def test_rows_classes_ranges_and_limits_are_those_of_the_table(
    finished: Callable[[str], gp.Run], data_dir: Path
) -> None:
    run = finished("classes")
    card, frame = card_of(run), pd.read_csv(data_dir / "german-credit/german.csv")
    is_test = frame.index.isin(run.predictions["row"])
    classes = table_with(card, "class of credit")
    for label, cells in classes.items():
        counts = [int(cell.split(" ")[0].replace(",", "")) for cell in cells]
        assert counts == [(frame["credit"][rows] == int(label)).sum() for rows in (~is_test, is_test)]
    columns, train = table_with(card, "column"), frame[~is_test]
    assert set(columns) == set(run.model.inputs)
    for name in ("age", "credit_amount"):
        low, high = columns[name][1].replace(",", "").split(" to ")
        assert (float(low), float(high)) == (train[name].min(), train[name].max())
    assert columns["purpose"][1].split()[0] == str(frame["purpose"].nunique())
    importances = run.importances.set_index("column")
    measured = {name: float(cells[-1]) for name, cells in columns.items() if cells[-1][0] != "≈"}
    assert measured
    for name, value in measured.items():
        assert value == pytest.approx(importances["importance"][name], abs=1e-4)
    assert f"{run.model.decision.threshold:.4g}" in card
    n_rare = int((frame["credit"][is_test] == 2).sum())
    assert f"`2` ({n_rare} rows" in card


def test_intervals_and_times_are_those_of_the_run(finished: Callable[[str], gp.Run], data_dir: Path) -> None:
    run = finished("numbers")
    card, rows = card_of(run), run.predictions
    covered = ((rows["lower"] <= rows["target"]) & (rows["target"] <= rows["upper"])).mean()
    assert f"{100 * covered:.1f} % of {len(rows):,}" in card
    instants = pd.read_csv(data_dir / "bike-sharing/bike.csv")["instant"]
    first = instants[rows["row"]].min()
    assert f"from {instants.min()} to {instants[instants < first].max():,}" in card
    assert str(data_dir) not in card  # a card leaves the machine of its author


@pytest.mark.parametrize("name", RUNS)
def test_the_example_of_a_card_runs(
    name: str, finished: Callable[[str], gp.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(name)
    source = card_of(run).split("```python\n")[1].split("```")[0]
    calls = re.findall(r"^model\.(\w+)", source, re.MULTILINE)
    assert calls == {
        "classes": ["predict", "predict_proba"], "numbers": ["predict", "predict_interval"],
        "several": ["predict", "predict_proba", "predict_set"], "clusters": ["predict"],
    }[name]  # fmt: skip
    monkeypatch.chdir(run.path)
    found: dict[str, Any] = {}
    exec(source, found)
    report = found["model"].last_prediction_report
    assert set(found["row"]) == set(run.model.inputs)
    assert not any(column.n_unseen or column.n_outside for column in report.columns)


def test_editing_or_deleting_the_card_changes_nothing_else(
    finished: Callable[[str], gp.Run], tmp_path: Path, data_dir: Path
) -> None:
    copy_model(finished("classes").path, tmp_path / "model", "cpu")
    card, rows = tmp_path / "model/README.md", pd.read_csv(data_dir / "german-credit/german.csv").head(20)
    assert card.read_text(encoding="utf-8") == card_of(finished("classes"))
    expected = gp.load_model(tmp_path / "model", "cpu").predict_proba(rows)
    card.write_bytes(b"\xff edited")
    model = gp.load_model(tmp_path / "model", "cpu")
    assert model.verify().passed
    for each in (model, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(each.predict_proba(rows), expected)
    copy_model(tmp_path / "model", tmp_path / "copy", "cpu")
    assert (tmp_path / "copy/README.md").read_bytes() == b"\xff edited"
    card.unlink()
    assert gp.load_model(tmp_path / "model", "cpu").verify().passed
    card.symlink_to(tmp_path / "copy/README.md")
    with pytest.raises(ArtifactError):
        gp.load_model(tmp_path / "model", "cpu")


def test_hostile_names_are_text_and_the_card_is_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [*HOSTILE, *(f"{i:03d}" + "<|`" * 400 for i in range(40))]
    frame = pd.DataFrame(rng.normal(size=(300, len(names))).astype("float32"), columns=names)
    frame["<b>|`y"] = rng.choice([*HOSTILE, *"abc"], len(frame))
    settings: dict[str, Any] = {"target": "<b>|`y", "models": ["gaussian_nb"], "report": {"enabled": False}}
    settings["evaluate"] = {"importance": False}
    cards = []
    for name in ("first", "second"):
        run = gp.Pipeline(frame, name="<i>*x*</i>", **settings).run(tmp_path / name, quiet=True)
        cards.append(card_of(run))
    card = cards[0]
    assert len(card.encode()) <= MOST_BYTES
    assert "column" in [rows[0][0] for rows in tables_of(card)]
    shown = table_with(card, "column")
    assert len(shown) == 50
    columns = {printable(name)[: MOST_CHARACTERS - 1] for name in names}
    assert {name[: MOST_CHARACTERS - 1] for name in shown} <= columns
    titles = [token for before, token in zip(parse(card), parse(card)[1:], strict=False) if before.tag == "h1"]
    assert text_of(titles[0]) == "<i>*x*</i>"
    assert not {child.type for token in parse(card) for child in token.children or []} & MARKUP
    undated = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", each) for each in cards]
    assert undated[0] == undated[1]


def test_secrets_are_hidden(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]
) -> None:
    monkeypatch.setenv("HIDDEN", "radio-hunter2")
    frame = pd.read_csv(data_dir / "german-credit/german.csv").rename(columns={"age": "radio-hunter2"})
    frame.to_csv(tmp_path / "radio-hunter2.csv", index=False)
    path = write(
        f"source: {{path: '{tmp_path}/${{HIDDEN}}.csv', target: credit, where: \"purpose != '${{HIDDEN}}'\"}}\n"
        "models: [gaussian_nb]\nreport: {enabled: false}\n"
    )
    run = gp.Pipeline.from_yaml(path).run(tmp_path / "run", quiet=True)
    assert "hunter2" not in card_of(run)
    assert "${HIDDEN}" in card_of(run)


@given(st.text(max_size=120))
@example("a\\|b")
@example("| --- |")
@example("`` ` ```")
@example("http://example.com <b>")
def test_any_name_in_a_table_and_any_message_in_a_list_is_text(name: str) -> None:
    shown = printable(name)
    shown = shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}…"
    cells = tables_of(table(["one", "two"], [[code(name), code(name)]]))
    assert cells == [[["one", "two"], [shown or "(empty)"] * 2]]
    tokens = parse(f"- x\n- {prose(name)}\n- z")
    assert [token.type for token in tokens].count("list_item_open") == 3
    assert [text_of(token) for token in tokens if token.type == "inline"][-1] == "z"
    message = printable(" ".join(name.split()))
    middle = [text_of(token) for token in tokens if token.type == "inline"][1:-1]
    assert middle == ([message] if message else [])
    assert {child.type for token in tokens for child in token.children or []} <= {"text", "text_special"}


@pytest.mark.parametrize("target", ["kind", ["kind", "size"]], ids=["one", "several"])
def test_a_class_without_a_test_row_is_stated_and_costs_nothing(tmp_path: Path, target: Any) -> None:
    x = np.random.default_rng(8).normal(size=150)
    frame = pd.DataFrame(
        {"x": x, "day": range(150), "kind": np.where(x > 0, "ash", "oak"), "size": np.where(x < 0, 1, 2)}
    )
    frame.loc[:20, "kind"] = "elm"  # in the earliest rows only
    settings: dict[str, Any] = {"split": {"time": "day"}, "models": ["gaussian_nb"], "report": {"plots": False}}
    run = gp.Pipeline(frame, target=target, **settings).run(tmp_path / "run")
    of = " of `kind`" if isinstance(target, list) else ""
    assert f"`elm`{of} (0 rows), " in card_of(run)
    assert re.search(rf"`ash`{of} \(\d+ rows, ±\d+ percentage points\)", card_of(run))
    assert "failures" not in run.document
