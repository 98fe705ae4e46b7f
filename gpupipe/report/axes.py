"""Axes of a plot as SVG text: scales, ticks, marks and a legend.

The plots of a report need no more of a drawing library. Matplotlib 3.11 took an eighth of the processor time of a small
run to be imported and to draw them, and builds a list of all fonts at its first import.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from gpupipe.report.text import printable
from gpupipe.report.theme import COLORS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

WIDTH, HEIGHT = 345.6, 237.6
RIGHT = 0.97  # end of the axes, as a fraction of the width
PADDING = 0.05  # of the range of the data on both sides
MOST_INTERVALS = 6  # between ticks
LEAST_STEP = 1e-300
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
LABEL_LENGTH = 24
CHARACTER = 0.62  # width of an average character of a legend in units of its size
Tick = tuple[float, str]

FONT = "font-family: 'DejaVu Sans', Verdana, sans-serif"
DASHES = "stroke-dasharray: 4 3; "
MARKERS = {"v": "m-{r} -{h}h{d}l-{r} {d}z", "^": "m-{r} {h}h{d}l-{r} -{d}z"}


@dataclass
class Legend:
    """Place of the names of marks: a corner of the axes, or ``above`` them in columns."""

    place: str
    n_columns: int = 1


@dataclass
class _Mark:
    """A shape in the coordinates of the data: its points, and how to write them."""

    x: Any
    y: Any
    shape: str  # line, area, dots or a key of `MARKERS`
    style: str
    size: float = 0.0


@dataclass
class Axes:
    """A pair of axes that collects marks and writes them as SVG.

    `left`, `bottom` and `top` are the edges of the axes as fractions of the figure. Limits that are not set follow from
    the marks; ticks that are not set are round numbers.

    Examples
    --------
    >>> axes = Axes("Epoch", "Loss")
    >>> axes.line([1, 2, 3], [0.9, 0.5, 0.4], COLORS["accent"])
    >>> axes.svg()[:38]
    '<svg xmlns="http://www.w3.org/2000/svg'
    """

    x_label: str
    y_label: str
    left: float = 0.17
    bottom: float = 0.15
    top: float = 0.96
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    x_ticks: Sequence[Tick] | None = None
    y_ticks: Sequence[Tick] | None = None
    legend: Legend | None = None
    _marks: list[_Mark] = field(default_factory=list)
    _references: list[tuple[str, float, str]] = field(default_factory=list)
    _texts: list[tuple[float, float, str]] = field(default_factory=list)
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)

    def line(
        self, x: ArrayLike, y: ArrayLike, color: str, width: float = 1.9, label: str = "", style: str = ""
    ) -> None:
        """Add a line through points; `style` is further CSS."""
        self._add(x, y, "line", f"fill: none; stroke: {color}; stroke-width: {width}; {style}", label, color)

    def diagonal(self, low: float, high: float) -> None:
        """Add the dashed line on which both coordinates are equal."""
        self.line([low, high], [low, high], COLORS["faint"], 1, style=DASHES)

    def reference(self, direction: str, value: float, color: str, style: str = "") -> None:
        """Add a line across the axes at a value: ``"horizontal"`` or ``"vertical"``."""
        self._references.append((direction, float(value), f"fill: none; stroke: {color}; stroke-width: 1; {style}"))

    def area(self, x: ArrayLike, y: ArrayLike, color: str, opacity: float) -> None:
        """Fill between points and zero."""
        self._add(x, y, "area", f"fill: {color}; opacity: {opacity}")

    def dots(
        self,
        x: ArrayLike,
        y: ArrayLike,
        color: str,
        size: float,
        label: str = "",
        opacity: float = 1.0,
        shape: str = "dots",
    ) -> None:
        """Add round dots, hollow ones (``"rings"``), or triangles (``"v"``, ``"^"``) of a size in points."""
        if shape == "dots":
            style = f"stroke: {color}; stroke-width: {size}; stroke-linecap: round; opacity: {opacity}"
        else:
            style = f"fill: {COLORS['card'] if shape == 'rings' else color}; stroke: {color}; stroke-width: 1.2"
        self._add(x, y, shape, style, label, color, size)

    def text(self, x: float, y: float, text: str) -> None:
        """Write a text to the upper right of a point."""
        self._texts.append((float(x), float(y), text))

    def svg(self) -> str:
        """Return the SVG file."""
        scale = _Scale.of(self)
        x_ticks = number_ticks(*scale.x_limits) if self.x_ticks is None else self.x_ticks
        y_ticks = number_ticks(*scale.y_limits) if self.y_ticks is None else self.y_ticks
        box = f'x="{scale.left:.1f}" y="{scale.top:.1f}" width="{scale.width:.1f}" height="{scale.height:.1f}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}pt" height="{HEIGHT}pt" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}">',
            f'<defs><clipPath id="box"><rect {box}/></clipPath></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" style="fill: {COLORS["card"]}"/>',
            f'<path d="{scale.grid(x_ticks, y_ticks)}" style="stroke: {COLORS["line"]}; stroke-width: 0.8"/>',
            *(_text(scale.x(at), scale.end + 11.5, label, "middle", 8.5) for at, label in scale.inside(x_ticks, 0)),
            *(_text(scale.left - 5, scale.y(at) + 3, label, "end", 8.5) for at, label in scale.inside(y_ticks, 1)),
            _text(scale.left + scale.width / 2, HEIGHT - 6.5, self.x_label, "middle", 9.5, "ink"),
            self._y_title(scale),
            *(f'<path d="{scale.across(name, at)}" style="{style}"/>' for name, at, style in self._references),
            *(scale.mark(mark) for mark in self._marks),
            *(_text(scale.x(x) + 6, scale.y(y) - 6, text, "start", 8.5, "ink") for x, y, text in self._texts),
            *self._legend(scale),
            "</svg>",
        ]
        return "\n".join(part for part in parts if part) + "\n"

    def _add(
        self, x: ArrayLike, y: ArrayLike, shape: str, style: str, label: str = "", color: str = "", size: float = 0.0
    ) -> None:
        import numpy as np

        across, up = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
        known = np.isfinite(across) & np.isfinite(up)
        self._marks.append(_Mark(across[known], up[known], shape, style, size))
        if label:
            self._names.setdefault(label, (shape, color))

    def _y_title(self, scale: _Scale) -> str:
        middle = scale.top + scale.height / 2
        return _text(12, middle, self.y_label, "middle", 9.5, "ink", f' transform="rotate(-90 12 {middle:.1f})"')

    def _legend(self, scale: _Scale) -> list[str]:
        """Return the lines of the legend: marks with their names."""
        if self.legend is None or not self._names:
            return []
        n_columns = self.legend.n_columns
        rows = -(-len(self._names) // n_columns)
        longest = max(map(len, self._names)) * 8 * CHARACTER + 26
        width = longest if self.legend.place != "above" else min(longest + 8, scale.width / n_columns)
        left = scale.left + 6 if self.legend.place.endswith("left") else scale.left + scale.width - longest
        top = scale.end - 12 * rows if self.legend.place.startswith("lower") else scale.top + 8
        if self.legend.place == "above":
            left, top = scale.left - 4, scale.top - 12 * rows + 4
        found = []
        for i, (label, (shape, color)) in enumerate(self._names.items()):
            x, y = left + width * (i // rows), top + 12 * (i % rows)
            mark = _Mark([x + 8], [y], shape, "", 4.5)
            if shape == "line":
                found.append(f'<path d="M{x:.1f} {y:.1f}h16" style="stroke: {color}; stroke-width: 1.9"/>')
            else:
                hollow = shape == "rings"
                style = f"fill: {COLORS['card'] if hollow else color}; stroke: {color}; stroke-width: 1.2"
                found.append(f'<path d="{_shape_path(mark.shape, x + 8, y, 4.5)}" style="{style}"/>')
            found.append(_text(x + 21, y + 3, label, "start", 8))
        return found


@dataclass(frozen=True)
class _Scale:
    """Limits of the data and the box of the axes in the figure."""

    x_limits: tuple[float, float]
    y_limits: tuple[float, float]
    left: float
    top: float
    width: float
    height: float

    @classmethod
    def of(cls, axes: Axes) -> _Scale:
        """Return the scale of axes: the limits that are set, or those of their marks."""
        marks, references = axes._marks, axes._references
        across = _ends(mark.x for mark in marks)
        up = _ends(mark.y for mark in marks)
        up += [0.0] if any(mark.shape == "area" for mark in marks) else []
        across += [value for direction, value, _ in references if direction == "vertical"]
        up += [value for direction, value, _ in references if direction == "horizontal"]
        left, top = axes.left * WIDTH, (1 - axes.top) * HEIGHT
        width, height = RIGHT * WIDTH - left, (axes.top - axes.bottom) * HEIGHT
        return cls(axes.x_limits or padded(across), axes.y_limits or padded(up), left, top, width, height)

    @property
    def end(self) -> float:
        """Lower edge of the axes."""
        return self.top + self.height

    def x(self, value: Any) -> Any:
        """Return the place of values in the figure."""
        return self.left + self.width * _fraction(value, self.x_limits)

    def y(self, value: Any) -> Any:
        """Return the place of values in the figure, which counts from the top."""
        return self.end - self.height * _fraction(value, self.y_limits)

    def inside(self, ticks: Sequence[Tick], axis: int) -> list[Tick]:
        """Return the ticks within the limits."""
        low, high = self.y_limits if axis else self.x_limits
        return [tick for tick in ticks if low <= tick[0] <= high]

    def grid(self, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> str:
        """Return the path of the lines at the ticks."""
        vertical = (self.across("vertical", at) for at, _ in self.inside(x_ticks, 0))
        return "".join([*vertical, *(self.across("horizontal", at) for at, _ in self.inside(y_ticks, 1))])

    def across(self, direction: str, value: float) -> str:
        """Return the path of a line across the axes; empty outside of the limits."""
        is_vertical = direction == "vertical"
        if not self.inside([(value, "")], axis=0 if is_vertical else 1):
            return ""
        if is_vertical:
            return f"M{self.x(value):.1f} {self.top:.1f}v{self.height:.1f}"
        return f"M{self.left:.1f} {self.y(value):.1f}h{self.width:.1f}"

    def mark(self, mark: _Mark) -> str:
        """Return the path of a mark; empty if it has no points."""
        if not len(mark.x):
            return ""
        x, y = self.x(mark.x), self.y(mark.y)
        pairs = [f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        if mark.shape == "line":
            path = "M" + "L".join(pairs)
        elif mark.shape == "area":
            path = f"M{x[0]:.1f} {self.y(0.0):.1f}L" + "L".join(pairs) + f"V{self.y(0.0):.1f}z"
        elif mark.shape == "dots":
            path = "".join(f"M{pair}h.01" for pair in pairs)
        else:
            path = "".join(_shape_path(mark.shape, a, b, mark.size) for a, b in zip(x, y, strict=True))
        clip = ' clip-path="url(#box)"' if mark.shape in ("line", "area") else ""
        return f'<path d="{path}"{clip} style="{mark.style.strip()}"/>'


def _ends(arrays: Iterable[Any]) -> list[float]:
    """Return the least and the greatest value of each array that has values."""
    filled = [values for values in arrays if len(values)]
    return [*(float(values.min()) for values in filled), *(float(values.max()) for values in filled)]


def _fraction(value: Any, limits: tuple[float, float]) -> Any:
    """Return the positions of values between limits, halved before the difference, which may exceed a float64."""
    low, high = limits
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _shape_path(shape: str, x: float, y: float, size: float) -> str:
    half = size / 2
    if shape in MARKERS:
        return f"M{x:.1f} {y:.1f}" + MARKERS[shape].format(r=half, d=size, h=half)
    return f"M{x - half:.1f} {y:.1f}a{half} {half} 0 1 0 {size} 0a{half} {half} 0 1 0 -{size} 0"


def _text(x: float, y: float, text: str, anchor: str, size: float, color: str = "muted", more: str = "") -> str:
    if not text:
        return ""
    style = f"font-size: {size}px; {FONT}; text-anchor: {anchor}; fill: {COLORS[color]}"
    return f'<text x="{x:.1f}" y="{y:.1f}"{more} style="{style}">{escape(text)}</text>'


def padded(values: Sequence[float]) -> tuple[float, float]:
    """Return limits with a margin around values; around 0 to 1 if there are none.

    Examples
    --------
    >>> padded([0.0, 10.0])
    (-0.5, 10.5)
    """
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = PADDING * high - PADDING * low or PADDING * abs(high) or PADDING
    most = math.nextafter(math.inf, 0)
    return max(low - margin, -most), min(high + margin, most)


def number_ticks(low: float, high: float) -> list[Tick]:
    """Return round numbers from `low` to `high` with their labels, at most 6 intervals.

    Examples
    --------
    >>> number_ticks(-1100.0, 2300.0)
    [(-1000.0, '−1,000'), (0.0, '0'), (1000.0, '1,000'), (2000.0, '2,000')]
    """
    least = high / MOST_INTERVALS - low / MOST_INTERVALS
    power = 10.0 ** math.floor(math.log10(max(least, LEAST_STEP)))
    step = next(factor * power for factor in STEPS if factor * power >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = dict.fromkeys(i * step for i in range(first, last + 1))  # each once: a step can be less than a rounding
    return [(place, f"{place:,.6g}".replace("-", "−")) for place in places]


def legend_label(label: str) -> str:
    """Return a label that fits."""
    label = printable(label)
    return label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…"
