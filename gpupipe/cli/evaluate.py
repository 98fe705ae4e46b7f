"""Command ``gpupipe evaluate RUN_OR_MODEL INPUT``: metrics of a model in use, with labels and without."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpupipe.cli.options import (
    PATH_OR_URL,
    device_option,
    mode_option,
    output_file_option,
    parse_limits,
    parse_pairs,
    parse_tables,
    require_date,
    table_option,
    untrusted_options,
)
from gpupipe.cli.source_options import parse_source_options, rewrite_terms, source_option, use_command_line_terms
from gpupipe.errors import DataError

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="INPUT", type=PATH_OR_URL)
@click.option(
    "--by",
    metavar="hour|day|week|month[:COLUMN]",
    help="Evaluate each period by itself, and test estimates on earlier ones. COLUMN: the time of the rows. Default: "
    "the column that the run was split by in time, or the only time among the inputs of the model.",
)
@click.option(
    "--slice", "slices", metavar="COLUMN", multiple=True, help="Measure each value or bin of a column too. Repeatable."
)
@click.option(
    "--cost",
    "costs",
    metavar="NAME=NUMBER",
    multiple=True,
    help="Add the mean cost of a decision: --cost false_positive=1 --cost false_negative=5. The model has no costs.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["worse", "unknown"]),
    help="Exit with code 5 if the first metric is worse than in the run in the latest period; unknown: also if it is "
    "neither measured nor estimated by a tested estimate.",
)
@output_file_option("Write one HTML page with the metrics over time, the slices and the drift.", "--html", name="html")
@mode_option
@source_option
@table_option
@click.option("--as-of", metavar="DATE", help="Compute features as of this date instead of the training cut-offs.")
@device_option
@untrusted_options
@click.option("--json", "as_json", is_flag=True, help="Print the evaluation as one JSON document.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    data: str,
    by: str | None,
    slices: tuple[str, ...],
    costs: tuple[str, ...],
    fail_on: Literal["worse", "unknown"] | None,
    html: Path | None,
    source_options: tuple[str, ...],
    tables: tuple[str, ...],
    as_of: str | None,
    device: Device,
    allow_code: bool,
    untrusted: bool,
    limits: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure the model of a run or model directory on INPUT (a file, glob, folder or URL) where its targets are known.

    For periods without targets, metrics are estimated from calibrated scores, with intervals that hold the errors of
    earlier estimates; or the reason is given why that is impossible. INPUT may be larger than memory.

    \b
    Exit codes:
      0  the model is not as bad as --fail-on, or --fail-on is not given
      5  it is, or INPUT or the model cannot be read
    """
    with use_command_line_terms():
        model_limits = parse_limits(limits, untrusted)
        import json

        from gpupipe.files.jsonfile import plain
        from gpupipe.inference.drift.periods import parse_by
        from gpupipe.io.settings import TableSource

        adjust = partial(parse_source_options, source_options)
        adjust(TableSource(path=data))  # report invalid options before the model is loaded
        require_date(as_of)
        if by is not None:
            parse_by(by)
        further, cost = parse_tables(tables), _parse_costs(costs)
        if html is not None:
            from gpupipe.inference.scoring.outputs import scoring_inputs
            from gpupipe.io.output_conflicts import require_no_conflict

            require_no_conflict(html, scoring_inputs(model, data, further))
        from gpupipe.inference.model import load_model
        from gpupipe.inference.scoring.local import adjust_tables

        loaded = load_model(model, device, allow_code=allow_code, untrusted=untrusted, limits=model_limits)
        sources = adjust_tables(loaded, further, adjust)
        found = loaded.evaluate(adjust(loaded.source_of(data)), by, slices, cost, sources, as_of)
        if html is not None:
            from gpupipe.files.file import write_text
            from gpupipe.io.files import mask

            write_text(html, found.to_html(mask(data)))
    code = DataError.exit_code if fail_on is not None and found.fails(fail_on) else 0
    if as_json:
        document = {"model": str(model), "input": data, "exit_code": code, **found.to_json()}
        click.echo(json.dumps(plain(document), indent=2))
    elif not quiet:
        click.echo(rewrite_terms("\n".join(found.lines())))
    return code


def _parse_costs(options: tuple[str, ...]) -> dict[str, str] | None:
    """Return the costs of ``--cost NAME=NUMBER`` by name; None without any."""
    found = parse_pairs(options, "--cost", "NAME=NUMBER")
    if found:
        from gpupipe.inference.evaluation.evaluate import read_costs

        read_costs(found)  # report invalid costs before the model is loaded
    return found or None
