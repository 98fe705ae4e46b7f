"""The ``report:`` section of a configuration."""

from __future__ import annotations

from pydantic import Field

from gpupipe.settings import Settings


class Report(Settings):
    """Whether and how the run is written up as one HTML page."""

    enabled: bool = Field(True, description="Write report.html.")
    plots: bool = Field(True, description="Draw the plots, also as plots/*.svg; the tables need no plotting library.")
    title: str | None = Field(None, description="Heading of the page; the name of the run where none is given.")
