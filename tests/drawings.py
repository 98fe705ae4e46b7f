"""Plots of reports, drawn once for each kind of figure: matplotlib needs half the time of a small run.

The later ones of a kind are the first one's SVG. Their own data still pass through the code of gpupipe that draws, on
axes that accept every call. ``--nightly`` and the fixture `real_drawings` draw every figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from gpupipe.report import plots


class FigureCache:
    """A replacement of `gpupipe.report.plots.figure_svg`."""

    def __init__(self) -> None:
        self.is_active = False
        self._draw_figure = plots.figure_svg
        self._drawn: dict[object, str] = {}

    def __call__(self, x_label: str, y_label: str, draw: Callable[[Any], None], **layout: Any) -> str:
        kind = (x_label, y_label, *layout.items())
        if not self.is_active or kind not in self._drawn:
            self._drawn[kind] = self._draw_figure(x_label, y_label, draw, **layout)
        else:
            axes = MagicMock()
            axes.get_xlim.return_value = axes.get_ylim.return_value = (0.0, 1.0)
            draw(axes)
        return self._drawn[kind]


FIGURES = FigureCache()
plots.figure_svg = FIGURES  # type: ignore[assignment]  # before modules import the function


@pytest.fixture(scope="session", autouse=True)
def figures_drawn_once(pytestconfig: pytest.Config) -> None:
    """Draw each kind of figure once, except with ``--nightly``."""
    FIGURES.is_active = not pytestconfig.getoption("--nightly")


@pytest.fixture(scope="module")
def real_drawings() -> Iterator[None]:
    """Draw every figure in a test file."""
    before, FIGURES.is_active = FIGURES.is_active, False
    yield
    FIGURES.is_active = before
