"""Command ``gpupipe drift RUN_OR_MODEL INPUT``: a table compared with the training rows of a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import (
    PATH_OR_URL,
    device_option,
    mode_option,
    output_file_option,
    parse_limits,
    parse_tables,
    require_date,
    table_option,
    untrusted_options,
)
from gpupipe.cli.source_options import parse_source_options, rewrite_terms, source_option, use_command_line_terms
from gpupipe.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpupipe.backends import Device
    from gpupipe.inference.drift.severity import Severity


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="INPUT", type=PATH_OR_URL)
@click.option(
    "--by",
    metavar="hour|day|week|month[:COLUMN]",
    help="Evaluate each period by itself too, and report since when the rows have drifted. COLUMN: the time of the "
    "rows. Default: the column that the run was split by in time, or the only time among the inputs of the model.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["low", "moderate", "high"]),
    help="Exit with code 5 if the verdict is at least this severe.",
)
@output_file_option(
    "Write the monitor page: one HTML file with the verdict, its reasons, and each column over time.",
    "--html",
    name="html",
)
@mode_option
@source_option
@table_option
@click.option("--as-of", metavar="DATE", help="Compute features as of this date instead of the training cut-offs.")
@device_option
@click.option(
    "--cluster",
    metavar="local|ADDRESS|FILE",
    help="Count on Dask workers: started on this machine (local), or those of a scheduler (address or file).",
)
@untrusted_options
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document, with all counts.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    data: str,
    by: str | None,
    fail_on: Severity | None,
    html: Path | None,
    source_options: tuple[str, ...],
    tables: tuple[str, ...],
    as_of: str | None,
    device: Device,
    cluster: str | None,
    allow_code: bool,
    untrusted: bool,
    limits: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare INPUT (a file, glob, folder or URL) with the training rows of the model of a run or model directory.

    The training data is not needed: the model has bins and levels of each column. INPUT may be larger than memory. If
    it has the target, metrics are compared too.

    \b
    Exit codes:
      0  the verdict is less severe than --fail-on, or --fail-on is not given
      5  the verdict is as severe, or INPUT or the model cannot be read
    """
    with use_command_line_terms():
        if cluster is not None and (tables or as_of):
            raise ConfigError("--cluster cannot be combined with --table and --as-of", fix="remove --cluster")
        model_limits = parse_limits(limits, untrusted, cluster)
        import json

        from gpupipe.files.jsonfile import plain
        from gpupipe.inference.drift.periods import parse_by
        from gpupipe.io.settings import TableSource

        adjust = partial(parse_source_options, source_options)
        adjust(TableSource(path=data))  # report invalid options before the model is loaded
        require_date(as_of)
        if by is not None:
            parse_by(by)
        further = parse_tables(tables)
        if html is not None:
            from gpupipe.inference.scoring.outputs import scoring_inputs
            from gpupipe.io.output_conflicts import require_no_conflict

            require_no_conflict(html, scoring_inputs(model, data, further))
        from gpupipe.inference.model import Model, load_model

        on = device if cluster is None else "cpu"  # then, it is that of the workers
        loaded = load_model(model, on, allow_code=allow_code, untrusted=untrusted, limits=model_limits)
        if cluster is None or not isinstance(loaded, Model):
            from gpupipe.inference.scoring.local import adjust_tables

            sources = adjust_tables(loaded, further, adjust)
            found = loaded.drift(adjust(loaded.source_of(data)), by, sources, as_of)
        else:
            from gpupipe.config.cluster import settings_of
            from gpupipe.inference.drift.cluster import detect_on_cluster
            from gpupipe.inference.scoring.cluster import absolute_path

            source = adjust(loaded.source_of(absolute_path(data)))
            found = detect_on_cluster(loaded, source, settings_of(cluster), by, device, _log(quiet))
        if html is not None:
            from gpupipe.files.file import write_text
            from gpupipe.io.files import mask

            write_text(html, found.to_html(mask(data)))
    code = DataError.exit_code if fail_on is not None and found.reaches(fail_on) else 0
    if as_json:
        document = {"model": str(model), "input": data, "exit_code": code, **found.to_json()}
        click.echo(json.dumps(plain(document), indent=2))
    elif not quiet:
        click.echo(rewrite_terms("\n".join(found.lines())))
    return code


def _log(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: click.echo(text, err=True))
