"""Command ``gpupipe predict RUN_OR_MODEL INPUT -o FILE`` or ``--to TABLE``: batch scoring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gpupipe.cli.options import PATH_OR_URL, copied_column_options, mode_option, output_file_option, safe_csv_option
from gpupipe.cli.scoring_options import scoring_options, show_summary
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="[INPUT]", required=False, type=PATH_OR_URL)
@output_file_option(
    "The .csv or .parquet file to write; with --cluster, a new folder of Parquet files.",
    metavar="PATH",
    callback=None,
    force="Replace an existing output file; folders are never replaced. Not needed with --to, which merges.",
)
@mode_option
@click.option(
    "--to",
    metavar="TABLE",
    help="Merge the scores into this table instead: postgresql://USER@HOST/NAME#SCHEMA.TABLE, sqlite:///FILE#TABLE, "
    "duckdb:///FILE#TABLE or delta://PATH. Rows with the same key are replaced, in one transaction; a repeated command "
    "changes nothing.",
)
@click.option(
    "--key",
    "keys",
    metavar="COLUMN",
    multiple=True,
    help="With --to: a column that identifies a row of the table, of INPUT, or model_version or run_time. Repeatable.",
)
@click.option("--model-version", is_flag=True, help="With --to: add the column model_version, 12 digits of a hash.")
@click.option(
    "--run-time", is_flag=True, help="With --to: add the column run_time: --as-of, or else the start, in UTC."
)
@copied_column_options
@click.option(
    "--explain",
    metavar="K",
    type=click.IntRange(min=1),
    help="Add the K columns that contribute most to each prediction: `reason_1`, `reason_1_value`, "
    "`reason_1_contribution`, and so on.",
)
@click.option(
    "--on-error",
    type=click.Choice(["error", "reject", "null"]),
    default="error",
    show_default=True,
    help="Handling of rows with invalid values. error: exit with code 5. reject: write them to OUTPUT.rejected.csv "
    "with the reason. null: score them with the invalid cells missing. reject and null add the column `row`, the "
    "position in INPUT, counted from 0, except with --to.",
)
@click.option(
    "--errors-to",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The .csv or .parquet file of rejected rows, instead of OUTPUT.rejected.csv; --to has no default.",
)
@safe_csv_option
@scoring_options("Score as of this date, such as 2024-06-30,", "a summary of the scoring", cluster="Score")
def command(
    model: Path,
    data: str | None,
    output: Path | None,
    to: str | None,
    keys: tuple[str, ...],
    model_version: bool,
    run_time: bool,
    explain: int | None,
    on_error: Literal["error", "reject", "null"],
    errors_to: Path | None,
    cluster: str | None,
    settings: ScoringSettings,
) -> None:
    """Score INPUT (a file, glob, folder or URL) with the model of a run directory, or a model directory.

    The output, -o or --to, has one row for each row of INPUT, in the same order: the copied columns, the prediction,
    and the probability of each class. With --cluster, the workers must reach INPUT and the output folder under the same
    paths.

    Without INPUT, every key with an event before --as-of is scored; this needs a model trained on event tables.
    """
    if (output is None) == (to is None):
        raise click.UsageError("expected one output: -o PATH or --to TABLE")
    if to is None and (keys or model_version or run_time):
        raise click.UsageError("--key, --model-version and --run-time require --to")
    if to is not None and cluster is not None:
        raise click.UsageError("--to cannot be combined with --cluster")
    if errors_to is not None and on_error == "error":
        raise click.UsageError("--errors-to requires --on-error reject or null")
    if cluster is not None and data is None:
        raise click.UsageError("--cluster requires INPUT")
    if cluster is not None and on_error != "error":
        raise ConfigError(
            f"--on-error {on_error} is not supported with --cluster: each worker has only some of the rows",
            fix="score on one machine, or remove --on-error",
        )
    written = output or errors_to
    if settings.safe_csv and (cluster is not None or written is None or written.suffix == ".parquet"):
        raise ConfigError("--safe-csv requires a CSV output; this one is Parquet", fix="remove --safe-csv")
    settings = replace(settings, on_error=on_error, errors_to=errors_to, explain=explain or 0)
    if output is None:
        from gpupipe.inference.scoring.merged_scores import predict_into_table

        more: dict[str, Any] = {"model_version": model_version, "run_time": run_time, **vars(settings)}
        summary = predict_into_table(model, data, to or "", keys, **more)
    elif cluster is None or data is None:
        from gpupipe.inference.scoring.local import score

        summary = score(model, data, output, settings)
    else:
        from gpupipe.config.cluster import settings_of
        from gpupipe.inference.scoring.cluster import score_on_cluster

        summary = score_on_cluster(model, data, output, settings_of(cluster), settings)
    show_summary(summary, settings)
