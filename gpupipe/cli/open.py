"""Command ``gpupipe open RUN``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

NAME = "report.html"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # variables, without which Linux has text browsers only


@click.command
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Open the report of RUN in the browser: a run directory, the model directory in it, or the report itself.

    On a machine without a browser, its address is printed instead.
    """
    import webbrowser

    from gpupipe.report.text import printable

    url = find_report(run).absolute().as_uri()
    is_open = any(map(os.environ.get, DISPLAYS)) or sys.platform in ("darwin", "win32")
    try:
        is_open = is_open and webbrowser.open(url)
    except (OSError, webbrowser.Error):
        is_open = False
    click.echo(printable(f"opened {url}" if is_open else f"no browser on this machine; the report is {url}"))


def find_report(path: Path) -> Path:
    """Return the report at a path, or of a run or model directory; raise ArtifactError if there is none."""
    from gpupipe.errors import ArtifactError
    from gpupipe.model_parts.folder import model_folder

    if path.is_file() and path.suffix == ".html":
        return path
    report = path / NAME
    if not report.is_file():
        report = model_folder(path).absolute().parent / NAME
    if not report.is_file():
        fix = "run the configuration with report: {enabled: true}; `gpupipe runs` shows the metrics"
        raise ArtifactError(f"there is no {NAME} in {report.parent}", where=str(path), fix=fix)
    return report
