"""Command ``gpupipe evaluate RUN_OR_MODEL INPUT``: metrics of a model in use, with labels and without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpupipe.cli.options import PATH_OR_URL, mode_option, output_file_option, parse_pairs
from gpupipe.cli.scoring_options import require_free_page, scoring_options, show_report

if TYPE_CHECKING:
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings


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
@scoring_options("Compute features as of this date", "the evaluation")
def command(
    model: Path,
    data: str,
    by: str | None,
    slices: tuple[str, ...],
    costs: tuple[str, ...],
    fail_on: Literal["worse", "unknown"] | None,
    html: Path | None,
    settings: ScoringSettings,
) -> int:
    """Measure the model of a run or model directory on INPUT (a file, glob, folder or URL) where its targets are known.

    For periods without targets, metrics are estimated from calibrated scores, with intervals that hold the errors of
    earlier estimates; or the reason is given why that is impossible. INPUT may be larger than memory.

    \b
    Exit codes:
      0  the model is not as bad as --fail-on, or --fail-on is not given
      5  it is, or INPUT or the model cannot be read
    """
    from gpupipe.inference.drift.periods import parse_by

    if by is not None:
        parse_by(by)
    cost = parse_pairs(costs, "--cost", "NAME=NUMBER") or None
    if cost is not None:
        from gpupipe.inference.evaluation.evaluate import read_costs

        read_costs(cost)  # report invalid costs before the model is loaded
    require_free_page(html, model, data, settings)
    from gpupipe.inference.scoring.local import adjust_tables

    loaded = settings.load(model)
    sources = adjust_tables(loaded, settings.tables, settings.adjust)
    found = loaded.evaluate(settings.adjust(loaded.source_of(data)), by, slices, cost, sources, settings.as_of)
    return show_report(found, fail_on is not None and found.fails(fail_on))
