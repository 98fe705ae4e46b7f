"""Command ``gpupipe explain RUN_OR_MODEL [INPUT] -o FILE``: contributions of columns to predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import (
    PATH_OR_URL,
    copied_column_options,
    device_option,
    mode_option,
    output_file_option,
    parse_limits,
    parse_tables,
    require_date,
    safe_csv_option,
    table_option,
    untrusted_options,
)
from gpupipe.cli.source_options import parse_source_options, rewrite_terms, source_option, use_command_line_terms
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="[INPUT]", required=False, type=PATH_OR_URL)
@output_file_option("The .csv or .parquet file to write.", required=True, callback=None)
@mode_option
@click.option(
    "--interactions", is_flag=True, help="Write the interaction of each pair of columns as well; models of trees only."
)
@copied_column_options
@source_option
@table_option
@safe_csv_option
@click.option(
    "--as-of", metavar="DATE", help="Explain as of this date, such as 2024-06-30, instead of the training cut-offs."
)
@device_option
@untrusted_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout: a summary.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    data: str | None,
    output: Path,
    interactions: bool,
    ids: tuple[str, ...],
    no_id: bool,
    keep: tuple[str, ...],
    source_options: tuple[str, ...],
    tables: tuple[str, ...],
    safe_csv: bool,
    as_of: str | None,
    device: Device,
    allow_code: bool,
    untrusted: bool,
    limits: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Write how much each column of INPUT (a file, glob, folder or URL) contributes to each prediction.

    The output has one row for each row of INPUT, in the same order: the copied columns, the prediction, `base`,
    `margin` and `contribution_COLUMN` for each input column. Base and contributions sum to the margin. With several
    classes, quantiles or targets, each has its own columns.

    Without INPUT, every key with an event before --as-of is explained; this needs a model trained on event tables.
    """
    if no_id and ids:
        raise click.UsageError("--no-id cannot be combined with --id")
    with use_command_line_terms():
        if safe_csv and output.suffix == ".parquet":
            raise ConfigError("--safe-csv requires a CSV output; this one is Parquet", fix="remove --safe-csv")
        model_limits = parse_limits(limits, untrusted)
        import json

        from gpupipe.inference.scoring.explained_files import explain_file
        from gpupipe.inference.scoring.scoring_settings import ScoringSettings
        from gpupipe.io.settings import TableSource
        from gpupipe.report.text import printable

        adjust = partial(parse_source_options, source_options)
        adjust(TableSource(path=data or "INPUT"))  # report invalid options before the model is loaded

        def say(text: str) -> None:
            if not quiet:
                click.echo(printable(rewrite_terms(text)), err=True)

        require_date(as_of)
        settings = ScoringSettings(
            device=device,
            allow_code=allow_code,
            untrusted=untrusted,
            limits=model_limits,
            tables=parse_tables(tables),
            as_of=as_of,
            adjust=adjust,
            ids=() if no_id else ids or None,
            keep=keep,
            safe_csv=safe_csv,
            log=say,
        )
        summary = explain_file(model, data, output, settings, interactions)
        for line in summary.lines():
            say(line)
        if as_json:
            click.echo(json.dumps({"model": str(model), "input": data, **summary.to_json()}, indent=2))
