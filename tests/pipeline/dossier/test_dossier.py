"""Tests of ``gpupipe dossier``: its values, as other parsers and the files of the run have them, and escapes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.pipeline.comparison.paired_metrics import metric_intervals
from gpupipe.pipeline.comparison.run_records import RunRecord
from gpupipe.report.text import number, printable

PARTS = [
    "1. General description of the system",
    "2. Elements of the system and process of its development",
    "3. Monitoring, functioning and control",
    "4. Appropriateness of the performance metrics",
    "5. Risk management system",
    "6. Changes through the lifecycle",
    "7. Standards applied",
    "8. EU declaration of conformity",
    "9. Monitoring after deployment",
    "Cross table to SR 26-2",
]
HOSTILE = ["<script>alert(1)</script>", "a|b", "`tick", "![x](plots/roc.svg)", "[x](javascript:y)", "**To be**", "&lt;"]
PLAIN: dict[str, Any] = {"device": "cpu", "evaluate": {"importance": False}, "report": {"enabled": False}}


def make_table(columns: list[str], n: int = 240) -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({name: random.normal(size=n) for name in columns})
    frame["<i>group</i>|"] = random.choice(["<b>x</b>", "y|z"], n)
    frame["amount"] = 3 * frame[columns[0]] + random.normal(size=n)
    frame["bad"] = np.where(frame["amount"] > 0, "<img src=x onerror=y>", "ok")
    return frame


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gp.Run:
    """A run whose columns, labels, slices, texts and warnings are markup."""
    frame = make_table(HOSTILE).drop(columns="amount")
    codes = {HOSTILE[0]: {"code": "<u>1</u>", "text": "a <script>|</script> `text`"}}
    evaluate = {"by": ["<i>group</i>|"], "importance": False, "reason_codes": {"columns": codes, "exclude": HOSTILE[1]}}
    pipe = gp.Pipeline(frame, target="bad", models=["logistic_regression"], name="<h1>n</h1>", evaluate=evaluate)
    return pipe.run(tmp_path_factory.mktemp("dossier") / "run", quiet=True)


@pytest.fixture(scope="module")
def folder(run: gp.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = gp.write_dossier(run, tmp_path_factory.mktemp("written") / "new")
    assert {path.name for path in page.parent.iterdir()} == {"dossier.html", "dossier.md", "plots"}
    return page.parent


class Page(HTMLParser):
    """Elements, headings and cells of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: dict[str, list[str]] = {"h2": [], "td": []}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes} | {f"{v}" for k, v in attributes if k == "href"}
        if tag in self.texts:
            self._open = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data


def tables_of(markdown: str) -> list[list[list[str]]]:
    """Return the rows of each table as the texts of their cells."""
    found: list[list[list[str]]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level >= 4 and found:
            found[-1][-1].append("".join(each.content for each in token.children or []))
    return found


def test_the_parts_are_in_order_with_the_recorded_metrics_and_hashes(run: gp.Run, folder: Path) -> None:
    text, page = (folder / "dossier.md").read_text(), Page((folder / "dossier.html").read_text())
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == PARTS == page.texts["h2"]
    assert re.search("Material for the technical documentation", text) and not re.search("complian|certif", text)
    n_gaps = text.count("> **To be written by a person:**")
    assert f"- Parts that a run cannot know: {n_gaps}." in text and n_gaps > 15
    tables = {tuple(rows[0]): rows[1:] for rows in tables_of(text)}
    metrics = {row[0]: row[2:] for row in tables["metric", "better", "value", "95 % interval"]}
    recorded = json.loads((run.path / "metrics.json").read_text())["models"]["logistic_regression"]
    assert [value for value, _ in metrics.values()] == [number(value) for value in recorded.values()]
    low, high = map(float, metrics["ROC AUC"][1].split(" to "))
    assert low < recorded["roc_auc"] < high
    hashes = {name: (digest, state) for name, digest, state in tables["file", "SHA-256", "state"]}
    files = [path for path in run.path.rglob("*") if path.is_file() and path.name != "run.json"]
    assert {str(path.relative_to(run.path)) for path in files} == set(hashes)
    for path in files:
        expected = hashlib.sha256(path.read_bytes()).hexdigest(), "as recorded"
        assert hashes[str(path.relative_to(run.path))] == expected


def test_names_labels_and_texts_are_never_markup(folder: Path) -> None:
    text, page = (folder / "dossier.md").read_text(), Page((folder / "dossier.html").read_text())
    assert not page.tags & {"script", "img", "i", "u", "em", "iframe", "object"}
    assert not any(each.startswith(("on", "javascript")) for each in page.attributes)
    for found in (page.texts["td"], [cell for rows in tables_of(text) for row in rows for cell in row]):
        assert {printable(name) for name in HOSTILE} <= set(found)
        assert {"<b>x</b>", "y|z", "<u>1</u> a <script>|</script> `text`"} <= set(found)
    assert all(len(row) == len(rows[0]) for rows in tables_of(text) for row in rows)
    assert page.tags >= {"svg", "blockquote", "nav"}


def test_files_of_others_and_edits_are_named(run: gp.Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    (copy / "provenance.json").write_text("{}")
    (copy / "report.html").unlink()
    card = copy / "model/README.md"
    card.write_text(card.read_text() + "\n## Intended use\n\nLoans <script>alert(2)</script> of *one* bank.\n")
    page = gp.write_dossier(copy, tmp_path / "out")
    text = page.with_suffix(".md").read_text()
    states = {row[0]: row[2] for rows in tables_of(text) if rows[0][0] == "file" for row in rows[1:]}
    assert (states["provenance.json"], states["report.html"]) == ("added later", "missing")
    assert (states["model/README.md"], states["metrics.json"]) == ("changed", "as recorded")
    assert "Files that the run did not write: `provenance.json`." in text
    start = text.index("#### Intended use")
    assert text.index("### (a) Purpose") < start < text.index("### (b) Interaction")
    assert "state them here" not in text and "is this directory" not in text
    assert "script" not in Page(page.read_text()).tags


def test_a_folder_with_files_or_in_the_run_is_refused(
    run: gp.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("precious")
    before = sorted(run.path.rglob("*"))
    for output, says in ((tmp_path / "full", "it is not empty"), (run.path / "new", "would be inside the run")):
        assert main(["dossier", str(run.path), "-o", str(output)]) == 2
        assert says in capsys.readouterr().err
    assert main(["dossier", str(run.path / "model"), "-o", str(tmp_path / "new")]) == 5
    assert "not a run directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine"] and sorted(run.path.rglob("*")) == before
    assert main(["dossier", str(run.path), "-o", str(tmp_path / "new")]) == 0
    assert f"wrote {tmp_path}/new/dossier.html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        (None, {"models": ["kmeans"]}),
        (["bad", "<i>group</i>|"], {"models": ["logistic_regression"], "split": {"cv": 2}}),
        ("amount", {"models": ["ridge"]}),
    ],
    ids=["clusters", "targets", "numbers"],
)
def test_other_tasks_have_the_same_parts(tmp_path: Path, target: Any, settings: dict[str, Any]) -> None:
    run = gp.Pipeline(make_table(["a"]), target=target, **PLAIN, **settings).run(tmp_path / "run", quiet=True)
    text = gp.write_dossier(run, tmp_path / "new").with_suffix(".md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == PARTS
    assert ("not computed" in text) == (target is None)
    if target == "amount":  # the standard error of a mean, in a closed form
        rows = run.predictions
        errors = (rows["target"] - rows["prediction"]).abs()
        low, high = metric_intervals(RunRecord(run).test_rows(), run.metrics)["mae"]
        assert high - low == pytest.approx(2 * 1.96 * errors.std() / len(errors) ** 0.5, rel=0.2)
