"""Command ``gpupipe promote FOLDER RUN_OR_MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import allow_code_option, device_option, mode_option

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.inference.promotion import Promotion


@click.command
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("challenger", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Promote without regard to the verdict, inputs and outputs.")
@mode_option
@device_option
@allow_code_option
def command(folder: Path, challenger: Path, force: bool, device: Device, allow_code: bool) -> None:
    """Make a model the current one of a folder of generations, which the first promotion creates.

    The model is copied into FOLDER/generations and verified with its recorded rows. Then one rename makes it current.
    Every command that takes a model takes FOLDER, and `gpupipe serve FOLDER` follows it without losing a request. A
    model that is current already is left alone. There is no --untrusted: run `gpupipe verify --untrusted` first.

    \b
    Exit codes:
      0  the model is current
      2  its inputs or outputs are incompatible with those of the current model, or FOLDER has other files
      5  the model is corrupt, or fails verification
      6  the verdict in its lineage is keep or refuse
    """
    from gpupipe.inference.promotion import promote

    show(promote(folder, challenger, device, allow_code=allow_code, force=force))


def show(found: Promotion) -> None:
    """Print the current generation, the one that it replaces, and notes."""
    from gpupipe.report.text import printable

    if found.before == found.current:
        click.echo(f"current   {found.current}, as before")
    else:
        click.echo(f"current   {found.current}\nreplaces  {found.before or 'none'}")
    for note in found.notes:
        click.echo(f"note: {printable(note)}", err=True)
