"""Command ``gpupipe explain RUN_OR_MODEL [INPUT] -o FILE``: contributions of columns to predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import PATH_OR_URL, copied_column_options, mode_option, output_file_option, safe_csv_option
from gpupipe.cli.scoring_options import scoring_options, show_summary
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("data", metavar="[INPUT]", required=False, type=PATH_OR_URL)
@output_file_option("The .csv or .parquet file to write.", required=True, callback=None)
@mode_option
@click.option(
    "--interactions", is_flag=True, help="Write the interaction of each pair of columns as well; models of trees only."
)
@copied_column_options
@safe_csv_option
@scoring_options("Explain as of this date, such as 2024-06-30,", "a summary")
def command(model: Path, data: str | None, output: Path, interactions: bool, settings: ScoringSettings) -> None:
    """Write how much each column of INPUT (a file, glob, folder or URL) contributes to each prediction.

    The output has one row for each row of INPUT, in the same order: the copied columns, the prediction, `base`,
    `margin` and `contribution_COLUMN` for each input column. Base and contributions sum to the margin. With several
    classes, quantiles or targets, each has its own columns.

    Without INPUT, every key with an event before --as-of is explained; this needs a model trained on event tables.
    """
    if settings.safe_csv and output.suffix == ".parquet":
        raise ConfigError("--safe-csv requires a CSV output; this one is Parquet", fix="remove --safe-csv")
    from gpupipe.inference.scoring.explained_files import explain_file

    show_summary(explain_file(model, data, output, settings, interactions), settings)
