"""Tests of the monitor page: its numbers are those of the report, and it is safe, self-contained and small."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import findfont, get_font

from gpupipe.inference.drift.column_drift import ColumnDrift, PeriodDrift
from gpupipe.inference.drift.monitor.charts import draw_cells
from gpupipe.inference.drift.report import DriftReport
from tests.inference.drift.tables import synthetic_report
from tests.report.html_page import HOSTILE, Page

COMPARED = datetime(2024, 3, 1, 6, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def report() -> DriftReport:
    return synthetic_report(20, 12)


def page(report: DriftReport, folder: Path, data: str = "new.parquet") -> Page:
    path = folder / "monitor.html"
    path.write_text(report.to_html(data, COMPARED), encoding="utf-8")
    return Page(path)


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of all tables, without tags."""
    each = re.findall(r"<tr[^>]*>(.*?)</tr>", text, flags=re.DOTALL)
    strip = lambda cell: " ".join(unescape(re.sub(r"<[^>]*>", " ", cell)).split())  # noqa: E731
    return [[strip(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.DOTALL)] for row in each]


def test_the_page_shows_the_numbers_of_the_report(report: DriftReport, tmp_path: Path) -> None:
    found, text = report.to_json(), page(report, tmp_path).text
    drifted = [column for column in found["columns"] if column["severity"] != "none"]
    assert f"{len(drifted)} of 20 columns changed" in text and f"{found['n_rows']:,}" in text
    assert "compared 2024-03-01 06:30 UTC" in text and "trained 2024-01-01 08:30 UTC" in text
    assert f"since {found['since']}" in text and "manifest 0123456789ab" in text
    assert "1 of 2 metrics is worse: ROC AUC is 0.8123 instead of 0.8765" in text
    cells = rows(report.to_html("", COMPARED))
    for column in (*found["columns"], *found["scores"]):
        row = next(row for row in cells if row[0] == column["name"] and len(row) > 8)
        assert row[2:4] == [column["severity"], f"{column['psi']:.3f}"] and row[5] == f"{column['jensen_shannon']:.3f}"
        assert row[8:] == [column["since"] or "", column["change"]]
    for period in found["periods"]:
        assert [period["period"], f"{period['n_rows']:,}", period["severity"]] in [row[:3] for row in cells]
    levels = next(column for column in drifted if column["levels"])
    for cell in np.argsort(np.array(levels["reference"])[3:])[-3:] + 3:
        name = levels["cells"][cell]
        then, now = (100 * levels[key][cell] / sum(levels[key]) for key in ("reference", "current"))
        assert [name, "", f"{then:.1f} % → {now:.1f} %"] in cells


def test_a_drift_of_the_latest_periods_is_named_although_all_rows_have_none(report: DriftReport) -> None:
    latest = [replace(c, severity="none", since="2024-01-09" if i < 3 else None) for i, c in enumerate(report.columns)]
    found = replace(report, severity="none", columns=tuple(latest), since="2024-01-09").to_html()
    last = report.periods[-1].severity
    assert f"No drift over all rows, but {last} drift since 2024-01-09: 3 of 20 columns changed" in found
    shown, folded = (found.index(f"<h3>{latest[i].name} ") for i in (2, 3))
    assert shown < found.index("Columns without drift") < folded


def test_the_page_runs_nothing_refers_to_nothing_and_is_well_formed(report: DriftReport, tmp_path: Path) -> None:
    page(report, tmp_path).check_self_contained()
    text = report.to_html("a", COMPARED)
    assert text == report.to_html("a", COMPARED)
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)|[a-z]\d*\.\d{6}", text)
    drawn = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    for svg in drawn:
        assert ElementTree.fromstring(svg).attrib["aria-label"]
        assert not re.search(r"#[0-9a-f]{3,6}\b|style=", svg)  # colours are those of the page, light or dark
    assert len(drawn) > 30


def test_every_text_of_the_report_is_escaped(tmp_path: Path) -> None:
    found = synthetic_report(6, 4, prefix=HOSTILE, level=HOSTILE)
    metrics = tuple(replace(metric, name=f"{metric.name}[{HOSTILE}]") for metric in found.metrics)
    columns = tuple(replace(column, change=HOSTILE, severity="high", since=HOSTILE) for column in found.columns)
    periods = tuple(PeriodDrift(HOSTILE, 5, 0.5, "high") for _ in found.periods)
    hostile = replace(
        found, notes=(HOSTILE,), metrics=metrics, columns=columns, periods=periods, since=HOSTILE, unit=HOSTILE,
        model=replace(found.model, estimator=HOSTILE, target=HOSTILE, created=HOSTILE, gpupipe=HOSTILE, sha256=HOSTILE),
    )  # fmt: skip
    text = hostile.to_html(HOSTILE, COMPARED)
    assert "<script" not in text and "\x1b" not in text and "\x00" not in text
    found_page = page(hostile, tmp_path, HOSTILE)
    found_page.check_self_contained()
    assert found_page.text.count("<script>alert(1)</script>") > 30
    assert not any("alert" in name for _, attributes in found_page.elements for name in attributes)


def test_a_wide_table_over_many_periods_fits_in_two_megabytes(report: DriftReport) -> None:
    periods = tuple(PeriodDrift(f"2024-01-{i:03}", 99, 0.3, "high") for i in range(60))
    drifted = replace(next(column for column in report.columns if column.levels), periods=periods, severity="high")
    wide = replace(report, columns=tuple(replace(drifted, name=f"wide {i:04}") for i in range(1_000)), periods=periods)
    text = wide.to_html()
    assert len(text.encode()) < 2_000_000 and "wide 0999" in text and "940 more columns drifted" in text
    assert text.count("<article") == 61  # 60 columns and the score
    longer = replace(wide, columns=wide.columns * 5).to_html()
    assert len(longer.encode()) < 3_000_000 and "And 3,001 more columns" in longer


def test_a_report_without_rows_scores_or_periods_has_a_page(tmp_path: Path) -> None:
    empty = DriftReport(severity="none", weighted_psi=0.0, n_rows=0)
    unknown = replace(empty, columns=(ColumnDrift(name="note", kind="text", reference=(5, 0), current=(3, 2)),))
    text = page(empty, tmp_path, "").text + page(unknown, tmp_path, "").text
    assert not re.search(r"\bNone\b(?! mean)|nan|inf\b", text)
    assert "value 0 % → 40.0 %" in text and "null 100.0 % → 60.0 %" in text


@given(
    st.lists(st.floats(0.5, 50), min_size=13, max_size=62),
    st.lists(st.integers(0, 40), min_size=130, max_size=130),
    st.floats(-100, 100),
)
def test_a_histogram_has_all_rows_where_they_are(widths: list[float], drawn: list[int], start: float) -> None:
    edges = start + np.concatenate([[0.0], np.cumsum(widths)])
    n = len(edges) + 2
    reference, current = np.array(drawn[:n]) + 1, np.array(drawn[-n:]) + 1
    column = ColumnDrift(
        name="x", kind="numeric", reference=tuple(reference), current=tuple(current), edges=tuple(edges)
    )
    found = draw_cells(column)
    assert found is not None and found.histogram is not None
    inner = [np.linspace(low, high, 2_001)[:-1] for low, high in pairwise(edges)]
    for counts, shares, key in (
        (reference, found.histogram.then, "then"),
        (current, found.histogram.now, "now"),
    ):
        assert sum(shares) + sum(getattr(pair, key) for pair in found.pairs) == pytest.approx(1)
        if len(shares) == 30:  # 30 bars of equal width, the outermost with the tails
            margin = 0.1 * (edges[-2] - edges[1])
            bars = np.linspace(max(edges[0], edges[1] - margin), min(edges[-1], edges[-2] + margin), 31)
            bars[[0, -1]] = edges[[0, -1]]
            weights = np.repeat(counts[2:-1] / counts.sum() / 2_000, 2_000)
            assert shares == pytest.approx(np.histogram(np.concatenate(inner), bars, weights=weights)[0], abs=2e-3)


def test_small_integers_are_named_by_their_value_and_levels_are_the_changed_ones() -> None:
    one = float(np.nextafter(np.float32(1), np.float32(2)))
    numbers = ColumnDrift(
        name="x", kind="numeric", edges=(0.0, 1.0, one), reference=(0, 0, 3, 1, 0), current=(0, 0, 1, 1, 0)
    )
    found = draw_cells(numbers)
    assert found is not None and [(p.name, p.then, p.now) for p in found.pairs] == [("0", 0.75, 0.5), ("1", 0.25, 0.5)]
    levels = tuple(f"l{i}" for i in range(40))
    reference = [0, 0, 0, *range(80, 40, -1)]
    current = [7, 5, 0, *range(80, 40, -1)]
    current[3 + 37] += 400
    many = draw_cells(ColumnDrift(name="y", kind="categorical", levels=levels, reference=tuple(reference),
                                  current=tuple(current)))  # fmt: skip
    assert many is not None
    names = [pair.name for pair in many.pairs]
    assert names[-3:] == ["30 more levels", "unseen", "null"] and "l37" in names and "l0" in names
    assert sum(pair.now for pair in many.pairs) == pytest.approx(1)


def test_figures_of_metrics_fit_into_their_columns(report: DriftReport) -> None:
    """Compare the width of the longest texts, in a wide typeface, with the columns of the style."""
    large = replace(report.metrics[0], name="rmse", recorded=1_234_567.0, value=987_654.0, low=812_345.0, high=1.2e6)
    small = replace(report.metrics[0], name="log_loss", recorded=3.1e-06, value=1.05e-05, low=1.01e-05, high=1.09e-05)
    text = replace(report, metrics=(large, small)).to_html("", COMPARED)
    body = text[text.index('class="bars intervals"') :]
    rule = re.search(r"\.intervals tr { grid-template-columns: minmax\(\d+px, \d+px\) 1fr ([^;]*); }", text)
    assert rule is not None and ".intervals .value small { display: block; }" in text
    widths = [int(width.removesuffix("px")) for width in rule[1].split()]
    font = get_font(findfont("DejaVu Sans"))
    font.set_size(13, 72)
    for row in re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)[:2]:
        cells = re.findall(r'<td class="value">(.*?)</td>', row, flags=re.DOTALL)
        for cell, width in zip(cells, widths, strict=True):
            for line in re.split(r"</?small>", cell):  # each on its own line
                font.set_text(unescape(re.sub(r"<[^>]*>", "", line)).strip())
                assert font.get_width_height()[0] / 64 <= width, line
