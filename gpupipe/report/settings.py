"""The ``report:`` section of a configuration."""

from __future__ import annotations

from pydantic import Field

from gpupipe.settings import Settings


class Report(Settings):
    """Report of the run, as one HTML page."""

    enabled: bool = Field(True, description="Write report.html.")
    plots: bool = Field(True, description="Draw the plots, and write them to plots/*.svg.")
    title: str | None = Field(None, description="Heading of the page. Default: the name of the run.")
