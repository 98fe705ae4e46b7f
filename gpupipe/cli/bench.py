"""``gpupipe bench CONFIG``: the honest card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option

if TYPE_CHECKING:
    from gpupipe.backends import Device


def sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Return the numbers in ``10000,100_000``."""
    words = [word.strip().replace("_", "") for word in value.split(",")] if value else []
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter(f"{value!r}: write whole numbers above 0, as in 10000,100000")
    return tuple(int(word) for word in words)


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field: --set seed=8.")
@device_override_option
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each; medians count.")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python script that does the same work: --data FILE --model lr|hgb|rf|xgb|none --json OUT. Repeatable.",
)
@click.option("--data", type=click.Path(path_type=Path), help="The file to measure on, instead of the source.")
@click.option("--model", metavar="NAME", help="A model of CONFIG, lr|hgb|rf|xgb as the peers train them, or none.")
@click.option(
    "--steady/--fresh",
    default=False,
    help="Also measure the stages warm, repeated in one process, and compare with that.  [default: fresh]",
)
@click.option(
    "--rows", metavar="N,N,...", default="", callback=sizes, help="Sizes of the generated table: where is break-even?"
)
@click.option("--serve", is_flag=True, help="Ask the peers for a transform of all rows too (they must know --serve).")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every run and figure here.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
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
    """Measure CONFIG stage by stage, against hand-written peers.

    Everybody runs in turn, each time in a fresh process, and the medians are compared. Nothing is written but the
    file of --json.
    """
    import sys

    from gpupipe.bench.measurement import BenchRequest, measure
    from gpupipe.bench.tables import show
    from gpupipe.config import load_config
    from gpupipe.io.output_conflicts import ProtectedInput, require_no_conflict
    from gpupipe.pipeline.atomic.file import require_writable_file, write_text
    from gpupipe.pipeline.jsonfile import dumps
    from gpupipe.pipeline.run_inputs import run_inputs

    extra = () if device is None else (f"device={device}",)
    if json_file is not None:  # before the work, not after it
        require_writable_file(json_file)
        inputs = run_inputs(load_config(config, [*overrides, *extra]))
        inputs += [ProtectedInput(str(path), "the peer") for path in peers]
        inputs += [ProtectedInput(str(data), "the data")] if data is not None else []
        require_no_conflict(json_file, inputs)
    request = BenchRequest(config, (*overrides, *extra), repeat, peers, data, model, steady, rows, serve)
    document = measure(request, lambda text: None if quiet else click.echo(text, err=True))
    if json_file is not None:
        write_text(json_file, dumps(document, indent=2) + "\n")
    show(document, sys.stdout)
