"""Command ``gpupipe bench CONFIG``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option, output_file_option, override_option

if TYPE_CHECKING:
    from gpupipe.backends import Device


def sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Parse row counts such as ``10000,100_000``."""
    words = [word.strip().replace("_", "") for word in value.split(",")] if value else []
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter(f"expected positive whole numbers such as 10000,100000, got {value!r}")
    return tuple(int(word) for word in words)


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@override_option
@device_override_option
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of CONFIG and each peer; medians are shown.",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python script that does the same work, called with --data FILE --model lr|hgb|rf|xgb|none --json OUT. "
    "Repeatable.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Measure on this file instead of the source.")
@click.option(
    "--model", metavar="NAME", help="The model to train: one of CONFIG, lr|hgb|rf|xgb as the peers train them, or none."
)
@click.option(
    "--steady/--fresh",
    default=False,
    help="Also measure the stages warm, repeated in one process, and compare those times.  [default: fresh]",
)
@click.option(
    "--rows",
    metavar="N,N,...",
    default="",
    callback=sizes,
    help="Numbers of rows of the generated table, to find the break-even point.",
)
@click.option("--serve", is_flag=True, help="Also time the transform of all rows; peers must support --serve.")
@output_file_option("Write all runs and figures to this file, as JSON.", "--json", name="json_file")
@click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
def command(
    config: Path,
    overrides: tuple[str, ...],
    device: Device | None,
    repeat: int,
    peers: tuple[Path, ...],
    data: Path | None,
    model: str | None,
    steady: bool,
    rows: tuple[int, ...],
    serve: bool,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Time CONFIG stage by stage and compare it with hand-written scripts (--peer).

    CONFIG and the peers run in turn, each run in a fresh process, and the medians are compared. No file is written
    except that of --output.
    """
    import sys

    from gpupipe.bench.measurement import BenchRequest, measure
    from gpupipe.bench.tables import show
    from gpupipe.config import load_config
    from gpupipe.files.file import write_text
    from gpupipe.files.jsonfile import dumps
    from gpupipe.io.output_conflicts import ProtectedInput, require_no_conflict
    from gpupipe.training.preparation.run_inputs import run_inputs

    extra = () if device is None else (f"device={device}",)
    if json_file is not None:  # fail before the measurement, not after it
        inputs = run_inputs(load_config(config, [*overrides, *extra]))
        inputs += [ProtectedInput(str(path), "the peer") for path in peers]
        inputs += [ProtectedInput(str(data), "the data")] if data is not None else []
        require_no_conflict(json_file, inputs)
    request = BenchRequest(config, (*overrides, *extra), repeat, peers, data, model, steady, rows, serve)
    document = measure(request, lambda text: None if quiet else click.echo(text, err=True))
    if json_file is not None:
        write_text(json_file, dumps(document, indent=2) + "\n", is_private=False)
    show(document, sys.stdout)
