"""Command ``gpupipe export RUN_OR_MODEL -o PATH``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpupipe.cli.options import allow_code_option, device_option, mode_option, output_file_option

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.inference.onnx.export import OnnxExport


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@output_file_option(
    "The folder to write, new or empty; with --format onnx, the file to write.",
    metavar="PATH",
    required=True,
    callback=None,
)
@mode_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["folder", "onnx"]),
    default="folder",
    show_default=True,
    help="folder: the portable model. onnx: one file for ONNX runtimes.",
)
@device_option
@allow_code_option
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path, output: Path, format_: Literal["folder", "onnx"], device: Device, allow_code: bool, quiet: bool
) -> None:
    """Copy the model of a run directory, or a model directory, into a folder, or write it as one ONNX file.

    The folder or file appears only when it is complete and verified with the recorded rows of the model. There is no
    --untrusted: copy the directory of an untrusted model, and run `gpupipe verify --untrusted`.
    """
    from gpupipe.cli.verify import summary
    from gpupipe.files.file import require_writable_file
    from gpupipe.inference.copy import copy_model
    from gpupipe.inference.model import load_model

    if format_ == "onnx":
        require_writable_file(output)  # before the model is opened
        lines = onnx_summary(load_model(model, device, allow_code=allow_code).to_onnx(output))
    else:
        lines = summary(copy_model(model, output, device, allow_code), str(output))
    if not quiet:
        click.echo("\n".join(lines), err=True)


def onnx_summary(found: OnnxExport) -> list[str]:
    """Return an exported ONNX file as lines of text."""
    from gpupipe.report.text import number, printable

    lines = [
        f"file         {found.path}, {found.path.stat().st_size:,} bytes",
        f"inputs       {', '.join(each.column.source for each in found.inputs)}",
        f"outputs      {', '.join(each.name for each in found.outputs)}",
    ]
    for each in found.comparisons:
        moved = f"; {each.moved} more because a feature differs in its last digits" if each.moved else ""
        lines.append(f"{each.runtime:<15}{each.rows} rows differ by at most {number(each.largest)}{moved}")
    lines += [f"not included {each}" for each in found.omitted]
    return [printable(line) for line in lines]
