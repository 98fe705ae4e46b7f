"""Command ``gpupipe drift RUN_OR_MODEL INPUT``: a table compared with the training rows of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import PATH_OR_URL, mode_option, output_file_option
from gpupipe.cli.scoring_options import require_free_page, scoring_options, show_report
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.inference.drift.severity import Severity
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings


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
@scoring_options("Compute features as of this date", "the report, with all counts", cluster="Count")
def command(
    model: Path,
    data: str,
    by: str | None,
    fail_on: Severity | None,
    html: Path | None,
    cluster: str | None,
    settings: ScoringSettings,
) -> int:
    """Compare INPUT (a file, glob, folder or URL) with the training rows of the model of a run or model directory.

    The training data is not needed: the model has bins and levels of each column. INPUT may be larger than memory. If
    it has the target, metrics are compared too.

    \b
    Exit codes:
      0  the verdict is less severe than --fail-on, or --fail-on is not given
      5  the verdict is as severe, or INPUT or the model cannot be read
    """
    if cluster is not None and (settings.tables or settings.as_of):
        raise ConfigError("--cluster cannot be combined with --table and --as-of", fix="remove --cluster")
    from gpupipe.inference.drift.periods import parse_by

    if by is not None:
        parse_by(by)
    require_free_page(html, model, data, settings)
    if cluster is None:
        from gpupipe.inference.scoring.local import adjust_tables

        loaded = settings.load(model)
        sources = adjust_tables(loaded, settings.tables, settings.adjust)
        found = loaded.drift(settings.adjust(loaded.source_of(data)), by, sources, settings.as_of)
    else:
        from gpupipe.config.cluster import settings_of
        from gpupipe.inference.drift.cluster import detect_on_cluster
        from gpupipe.inference.model import load_model
        from gpupipe.inference.scoring.cluster import absolute_path

        # The device is that of the workers.
        local = load_model(model, "cpu", allow_code=settings.allow_code, trust=settings.trust)
        source = settings.adjust(local.source_of(absolute_path(data)))
        found = detect_on_cluster(local, source, settings_of(cluster), by, settings.device, settings.log)
    return show_report(found, fail_on is not None and found.reaches(fail_on))
