"""Command ``gpupipe export RUN_OR_MODEL -o FOLDER``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import allow_code_option, device_option

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder to write; new, or empty.",
)
@device_option
@allow_code_option
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(model: Path, output: Path, device: Device, allow_code: bool, quiet: bool) -> None:
    """Copy the model of a run directory, or a model directory, into FOLDER and verify it there.

    FOLDER appears only when the copy is complete and verified.
    """
    from gpupipe.cli.verify import summary
    from gpupipe.pipeline.model.copy import copy_model

    found = copy_model(model, output, device, allow_code)
    if not quiet:
        click.echo("\n".join(summary(found, str(output))), err=True)
