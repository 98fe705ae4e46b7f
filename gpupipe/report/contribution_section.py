"""The section of the page about contributions of input columns: tables, strips and plots of each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.report.beeswarm import axis_of, strip_svg
from gpupipe.report.contributions import ContributionBar, ExplainedColumn, TargetContributions, contribution_note
from gpupipe.report.data import ReportData
from gpupipe.report.example_rows import ExampleRow, examples_of
from gpupipe.report.inline import inline_svg
from gpupipe.report.text import signed

if TYPE_CHECKING:
    from markupsafe import Markup

    from gpupipe.metrics import ColumnImportance

MOST_TARGETS = 5
MOST_BARS = 12  # with strips
MOST_CLASSES = 4
MOST_CLASS_BARS = 8
MOST_OTHERS = 40  # further columns, folded
MOST_PLOTS, MOST_TARGET_PLOTS = 4, 2  # of one target; of each of several
MOST_DOTS = 6_000  # of all strips: about 15 bytes each


@dataclass(frozen=True)
class BarRow:
    """A row of a table of contributions."""

    bar: ContributionBar
    strip: Markup | None = None
    importance: ColumnImportance | None = None


@dataclass(frozen=True)
class ContributionTable:
    """A table of contributions to one margin, or to all.

    `title` is the class; "" for a table about all margins. `others` are columns with smaller contributions, folded, and
    `n_unlisted` is the number of columns that are in neither. `scale` is the largest bar. `ticks` are the position in
    percent and the label of each tick of the strips; none without strips.
    """

    title: str
    rows: Sequence[BarRow]
    others: Sequence[BarRow] = ()
    n_unlisted: int = 0
    scale: float = 0.0
    ticks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class ContributionSection:
    """The section of one target.

    `table` is over all margins, and `classes` are those of the most frequent classes. `stems` are those of the plots of
    the section, and `figures` have the caption and SVG of each plot. `importances` is true if the table has permutation
    importances.
    """

    found: TargetContributions
    note: str
    table: ContributionTable
    classes: Sequence[ContributionTable]
    stems: Sequence[str]
    figures: Sequence[tuple[str, Markup]]
    examples: Sequence[tuple[ExampleRow, list[str]]]
    importances: bool = False

    @property
    def n_classes(self) -> int:
        """Number of margins of classes; 0 for a single margin."""
        n = len(self.found.labels)
        return n if n > 1 else 0


def contribution_sections(data: ReportData, plots: dict[str, str], *, has_strips: bool) -> list[ContributionSection]:
    """Return the section of each of the first targets; `plots` are SVG files by stem."""
    shown = data.contributions[:MOST_TARGETS]
    importances = {item.name: item for item in data.importances}
    n_strips = sum(_n_strips(each) for each in shown)
    sections = []
    for i, found in enumerate(shown, 1):
        is_merged = not data.targets and bool(importances) and importances.keys() <= {c.name for c in found.columns}
        n_dots = MOST_DOTS // n_strips if has_strips else 0
        bars = found.bars(MOST_BARS + MOST_OTHERS)
        several = len(found.labels) > 1
        table = _table(found, bars, 0 if several else n_dots, importances if is_merged else {})
        classes = []
        for margin in found.order[:MOST_CLASSES] if several else ():
            own = found.bars_of(margin, MOST_CLASS_BARS)
            classes.append(_table(found, own, n_dots, {}, margin))
        names = _plot_columns(data, found, i)
        figures = [
            (column.name, _inline(plots[stem], stem, found, column))
            for stem, (_, column) in names.items()
            if stem in plots
        ]
        note, examples = contribution_note(found), examples_of(found)
        sections.append(ContributionSection(found, note, table, classes, list(names), figures, examples, is_merged))
    return sections


def draw_contributions(data: ReportData) -> dict[str, str]:
    """Return file stem to SVG: the dependence of the columns with the largest contributions to each target."""
    from gpupipe.report.dependence_plots import draw_dependence

    plots: dict[str, str] = {}
    for i, found in enumerate(data.contributions[:MOST_TARGETS], 1):
        columns = _plot_columns(data, found, i)
        plots |= {stem: draw_dependence(found, position) for stem, (position, _) in columns.items()}
    return plots


def _n_strips(found: TargetContributions) -> int:
    n = len(found.labels)
    return MOST_BARS if n == 1 else MOST_CLASS_BARS * min(n, MOST_CLASSES)


def _plot_columns(data: ReportData, found: TargetContributions, i: int) -> dict[str, tuple[int, ExplainedColumn]]:
    """Return stem to position and column of each plot of a target."""
    most = MOST_TARGET_PLOTS if data.targets else MOST_PLOTS
    drawable = [j for j in found.ranked if found.importances[j] > 0 and found.columns[j].is_drawable][:most]
    of = f"-{i}" if data.targets else ""
    return {f"dependence{of}-{k}": (j, found.columns[j]) for k, j in enumerate(drawable, 1)}


def _inline(svg: str, stem: str, found: TargetContributions, column: ExplainedColumn) -> Markup:
    from markupsafe import Markup

    return Markup(inline_svg(svg, stem, f"Contributions of {column.name} to {found.explained} against its values"))


def _table(
    found: TargetContributions,
    bars: Sequence[ContributionBar],
    n_dots: int,
    importances: dict[str, ColumnImportance],
    margin: int | None = None,
) -> ContributionTable:
    """Return a table with strips of `n_dots` rows, or none for 0; `margin` is None for all margins."""
    import numpy as np
    from markupsafe import Markup

    used = [bar for bar in bars if bar.mean > 0 or bar.name in importances]
    shown, others = used[:MOST_BARS], used[MOST_BARS : MOST_BARS + MOST_OTHERS]
    strips: dict[str, Markup] = {}
    ticks: list[tuple[float, str]] = []
    if n_dots:
        values = found.values[:, :, margin or 0]
        limits, places = axis_of(values[:, [bar.position for bar in shown]])
        rows = np.unique(np.linspace(0, found.n_rows - 1, min(found.n_rows, n_dots)).astype(np.int64))
        for bar in shown:
            column = found.columns[bar.position]
            strips[bar.name] = Markup(strip_svg(column, values[:, bar.position], limits, places, rows))
        largest = max(map(abs, places), default=1.0) or 1.0
        width = limits[1] - limits[0]
        ticks = [(round(100 * (place - limits[0]) / width, 2), _tick(place, largest)) for place in places]

    def rows_of(own: Sequence[ContributionBar]) -> list[BarRow]:
        return [BarRow(bar, strips.get(bar.name), importances.get(bar.name)) for bar in own]

    return ContributionTable(
        "" if margin is None else found.labels[margin],
        rows_of(shown),
        rows_of(others),
        len(found.columns) - len(shown) - len(others),
        max((bar.mean for bar in used), default=0.0),
        ticks,
    )


def _tick(place: float, largest: float) -> str:
    text = signed(place, largest * 100)
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    return "0" if place == 0 else f"{whole}.{decimals}" if decimals else whole
