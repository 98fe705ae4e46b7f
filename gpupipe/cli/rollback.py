"""Command ``gpupipe rollback FOLDER``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", metavar="ID", help="The generation to return to: its name or number. Default: the one before.")
def command(folder: Path, to: str | None) -> None:
    """Return to the generation that was current before, and with the next rollback to the one before that.

    A generation that was rolled back is passed over. Nothing is removed: `--to` makes any generation current, also if
    the pointer is corrupt. `gpupipe history FOLDER` lists them.

    \b
    Exit codes:
      0  the earlier generation is current
      2  the folder does not have this generation, or none before
      5  the generation is corrupt
    """
    from gpupipe.cli.promote import show
    from gpupipe.inference.promotion import rollback

    show(rollback(folder, to))
