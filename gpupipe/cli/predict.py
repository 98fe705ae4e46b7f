"""``gpupipe predict RUN_OR_MODEL INPUT -o FILE``: batch scoring; with ``--cluster``, into a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpupipe.cli.options import device_option, limit_option, parse_limits, untrusted_option
from gpupipe.cli.source_options import parse_source_options, rewrite_terms, source_option, use_command_line_terms
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="[INPUT]", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A .csv or .parquet file; with --cluster, a new folder of Parquet files.",
)
@click.option(
    "--id",
    "ids",
    metavar="COLUMN",
    multiple=True,
    help="Copy this identifier into the output, first; repeatable. Default: those that the model knows of.",
)
@click.option("--no-id", is_flag=True, help="Copy no identifier.")
@click.option(
    "--keep",
    metavar="COLUMNS",
    multiple=True,
    help='Copy further columns, unchanged: names and globs, such as "plan,signup_*".',
)
@source_option
@click.option(
    "--on-error",
    type=click.Choice(["error", "reject", "null"]),
    default="error",
    show_default=True,
    help="What to do with rows that cannot be scored as they are. error: exit with code 5. reject: write them to "
    "OUTPUT.rejected.csv with the reason. null: score them with the bad cells missing. The last two add the column "
    "`row`, the place in INPUT from 0.",
)
@click.option(
    "--table", "tables", metavar="NAME=FILE", multiple=True, help="A further table that the features are made of."
)
@click.option(
    "--safe-csv",
    is_flag=True,
    help="Put an apostrophe before texts and column names of CSV outputs that a spreadsheet would take for a formula.",
)
@click.option("--as-of", metavar="DATE", help="Score as of this date instead of the training cut-offs.")
@device_option
@click.option(
    "--cluster", metavar="local|ADDRESS|FILE", help="Workers that share the rows: started here, or a scheduler's."
)
@click.option("--allow-code", is_flag=True, help="Run the Python code that the model holds: users' kernels.")
@untrusted_option
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout: a summary of the scoring.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    data: str | None,
    output: Path,
    ids: tuple[str, ...],
    no_id: bool,
    keep: tuple[str, ...],
    source_options: tuple[str, ...],
    on_error: Literal["error", "reject", "null"],
    tables: tuple[str, ...],
    safe_csv: bool,
    as_of: str | None,
    device: Device,
    cluster: str | None,
    allow_code: bool,
    untrusted: bool,
    limits: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Score INPUT (a file, glob, folder or URL) with the model of a run directory, or a model directory.

    One row out for each row in, in the same order: the copied columns, the prediction, and the probability of each
    class. The workers of a cluster must reach INPUT and the output folder under the same paths.

    Without INPUT, every key with an event before --as-of is scored; for models whose rows were made of events.
    """
    if no_id and ids:
        raise click.UsageError("--no-id does not go with --id")
    with use_command_line_terms():
        if cluster is not None and on_error != "error":
            raise ConfigError(
                f"--on-error {on_error} does not work with --cluster: each worker sees a part of the rows",
                fix="score on one machine, or leave --on-error out",
            )
        if safe_csv and (cluster is not None or output.suffix == ".parquet"):
            raise ConfigError("--safe-csv is for CSV outputs, and this one is Parquet", fix="leave --safe-csv out")
        if cluster is not None and untrusted:
            raise ConfigError(
                "--untrusted does not work with --cluster: workers load models in their own processes",
                fix="score on one machine",
            )
        model_limits = parse_limits(limits, untrusted)
        import json

        from gpupipe.config.cluster import settings_of
        from gpupipe.io.settings import TableSource
        from gpupipe.pipeline.scoring import score, score_on_cluster
        from gpupipe.report.text import printable

        if cluster is not None and data is None:
            raise click.UsageError("--cluster needs INPUT: a table of the rows to score")
        adjust = partial(parse_source_options, source_options)
        adjust(TableSource(path=data or "INPUT"))  # an option that is wrong is reported before the model is loaded

        def say(text: str) -> None:
            if not quiet:
                click.echo(printable(rewrite_terms(text)), err=True)

        _require_date(as_of)
        further = dict(_named(table) for table in tables)
        chosen = () if no_id else ids or None
        if cluster is None or data is None:
            summary = score(
                model, data, output, device, further, as_of, allow_code, say,
                ids=chosen, keep=keep, adjust=adjust, on_error=on_error, safe_csv=safe_csv,
                untrusted=untrusted, limits=model_limits,
            )  # fmt: skip
        else:
            summary = score_on_cluster(
                model, data, output, settings_of(cluster), device, further, as_of, allow_code, say,
                ids=chosen, keep=keep, adjust=adjust,
            )  # fmt: skip
        for line in summary.lines():
            say(line)
        if as_json:
            click.echo(json.dumps({"model": str(model), "input": data, **summary.to_json()}, indent=2))


def _require_date(as_of: str | None) -> None:
    from gpupipe.units import parse_time_us

    try:
        parse_time_us(as_of or "1970-01-01")
    except ValueError as error:
        raise ConfigError(f"--as-of: {error}") from None


def _named(table: str) -> tuple[str, str]:
    name, equals, path = table.partition("=")
    if not (name and equals and path):
        raise click.BadParameter(f"{table!r} is not NAME=FILE", param_hint="--table")
    return name, path
