"""``gpupipe export RUN_OR_MODEL -o FOLDER``: a model in a folder of its own, verified there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_option

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A folder: new, or empty.")
@device_option
@click.option("--allow-code", is_flag=True, help="Let the Python code run that the model holds: users' kernels.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(model: Path, output: Path, device: Device, allow_code: bool, quiet: bool) -> None:
    """Copy a model into FOLDER, after it has been verified there; the folder is complete or not there at all."""
    from gpupipe.cli.verify import summary
    from gpupipe.pipeline.model.copy import copy_model

    found = copy_model(model, output, device, allow_code)
    if not quiet:
        click.echo("\n".join(summary(found, str(output))), err=True)
