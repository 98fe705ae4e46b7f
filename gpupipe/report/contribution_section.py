"""The section of the page about contributions of input columns: tables, strips and plots of each target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.report.contributions import ContributionBar, ExplainedColumn, TargetContributions, contribution_note
from gpupipe.report.data import ReportData
from gpupipe.report.environment import inline_svg
from gpupipe.report.example_rows import ExampleRow, examples_of
from gpupipe.report.text import signed

if TYPE_CHECKING:
    from markupsafe import Markup

    from gpupipe.metrics import ColumnImportance
    from gpupipe.typing import HostArray

WIDTH, HEIGHT = 1000, 30  # units of a strip; its width on the page is fluid, its height is in pixels
CELL = 11  # units that a dot is wide on a page of usual width
STEP = 3.4  # pixels between the dots of a cell
REACH = 12.0  # pixels from the middle to the outermost dots
N_COLORS = 7
TICKS = 4
SMALLEST = 1e-300  # range of an axis: steps of a smaller one are subnormal numbers, or 0
TAIL_PERCENT = 5  # of the values at each end have the last colour, as in the plots of the library shap

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


def strip_svg(
    column: ExplainedColumn,
    contributions: HostArray,
    limits: tuple[float, float],
    ticks: Sequence[float],
    rows: HostArray,
) -> str:
    """Return the strip of a column as SVG with a description for screen readers; its classes are in style.css.

    `contributions`, float64, shape (n,), are those of all explained rows. `limits` are contributions at the left and
    the right end, and `ticks` positions of grid lines. `rows`, int64, shape (n_shown,), are the rows to draw.
    """
    import numpy as np

    low, high = limits
    scaled = np.rint((contributions[rows] - low) / (high - low) * WIDTH).astype(int)
    offsets = swarm_offsets(scaled)
    colors = color_codes(column, len(contributions))[rows]

    def line(place: float) -> str:  # longer than the strip: rows of the table may be higher
        return f"M{round((place - low) / (high - low) * WIDTH)} {-HEIGHT}v{3 * HEIGHT}"

    grid = "".join(line(tick) for tick in ticks if tick)
    paths = [f'<path class="grid" d="{grid}"/>', f'<path class="zero" d="{line(0.0)}"/>']
    for color in (-1, *range(N_COLORS)):
        own = np.flatnonzero(colors == color)
        if len(own):
            # A line of almost no length with round ends is a dot; it stays round when the strip is stretched.
            dots = "".join(f"M{scaled[i]} {HEIGHT / 2 + offsets[i]:.1f}h.01" for i in own.tolist())
            paths.append(f'<path class="dots v{color + 1}" d="{dots}"/>')
    ends = [signed(float(value), max(-low, high) * 20) for value in np.percentile(contributions, [0, 50, 100])]
    label = f"contributions from {ends[0]} to {ends[2]}, median {ends[1]}"
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}"'
    return f'<svg class="strip" {view}>{"".join(paths)}</svg>'


def swarm_offsets(scaled: HostArray) -> HostArray:
    """Return the distance of each dot from the middle line, so that dots in the same cell do not cover each other.

    `scaled`, int64, shape (n,), has positions along the strip.

    Examples
    --------
    >>> import numpy as np
    >>> swarm_offsets(np.array([5, 5, 5, 500])).tolist()
    [0.0, 3.4, -3.4, 0.0]
    """
    import numpy as np

    cells = scaled // CELL
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    rank = np.empty(len(cells), np.int64)
    rank[order] = np.arange(len(cells)) - starts
    levels = (rank + 1) // 2 * np.where(rank % 2, 1, -1)
    most = max(1, int(np.abs(levels).max(initial=0)))
    offsets: HostArray = levels * min(STEP, REACH / most) + 0.0
    return offsets


def color_codes(column: ExplainedColumn, n_rows: int) -> HostArray:
    """Return the colour of each row, int64, shape (n,): 0 (low) to `N_COLORS` - 1 (high), -1 without a number."""
    import numpy as np

    codes: HostArray = np.full(n_rows, -1)
    if column.kind not in ("numeric", "datetime"):
        return codes
    numbers = np.asarray(column.values, float)
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return codes
    low, high = np.percentile(known, [TAIL_PERCENT, 100 - TAIL_PERCENT])
    if low == high:  # almost all rows have the same value
        low, high = known.min(), known.max()
    share = np.clip((numbers - low) / ((high - low) or 1.0), 0.0, 1.0)
    is_known = np.isfinite(numbers)
    codes[is_known] = np.minimum((share[is_known] * N_COLORS).astype(int), N_COLORS - 1)
    return codes


def axis_of(values: HostArray) -> tuple[tuple[float, float], list[float]]:
    """Return the ends of an axis that has all values and 0, with a margin, and its ticks.

    Examples
    --------
    >>> import numpy as np
    >>> axis_of(np.array([-0.9, 1.4]))
    ((-0.992, 1.492), [-0.5, 0.0, 0.5, 1.0])
    """
    low, high = min(0.0, float(values.min(initial=0.0))), max(0.0, float(values.max(initial=0.0)))
    if high - low < SMALLEST:
        return (-1.0, 1.0), [0.0]
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    step = 10 ** math.floor(math.log10((high - low) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= TICKS + 2)
    ticks = [round(i * step, 12) + 0.0 for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return (low, high), ticks
