"""Command ``gpupipe dossier RUN -o FOLDER``."""

from __future__ import annotations

from pathlib import Path

import click

from gpupipe.cli.options import mode_option

PATH = click.Path(path_type=Path)


@click.command
@click.argument("run", type=PATH)
@click.option("-o", "--output", metavar="FOLDER", type=PATH, required=True, help="The folder to write, new or empty.")
@mode_option
def command(run: Path, output: Path) -> None:
    """Write material for the technical documentation of RUN, in Markdown and HTML.

    The parts are those of Annex IV of the EU AI Act, with a cross table to SR 26-2. They contain what the run has
    recorded; what a run cannot know is marked "to be written by a person". The dossier does not show conformity.
    """
    from gpupipe.pipeline.dossier.dossier import write_dossier
    from gpupipe.report.text import printable

    click.echo(printable(f"wrote {write_dossier(run, output)}"), err=True)
