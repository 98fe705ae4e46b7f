"""Command ``gpupipe diff OLD NEW [DATA]``: two models compared, and their predictions for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpupipe.cli.options import PATH_OR_URL, emit, json_options, mode_option, writable_file
from gpupipe.cli.scoring_options import scoring_options, write_page
from gpupipe.cli.source_options import rewrite_terms
from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings

FAILED = 1


@click.command
@click.argument("old", metavar="OLD", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@click.argument("data", metavar="[DATA]", required=False, type=PATH_OR_URL)
@click.option("--by", metavar="COLUMN", multiple=True, help="Compare each value of this column too. Repeatable.")
@click.option(
    "--group",
    metavar="COLUMN",
    help="Draw whole groups of this column for intervals. Default: groups or days if NEW was split by them.",
)
@click.option("--rows", type=click.IntRange(0, 1000), default=10, show_default=True, help="Changed rows to explain.")
@click.option(
    "--moved",
    type=click.FloatRange(0),
    metavar="AMOUNT",
    help="Numbers that change by more count as flipped. Default: the mean absolute error in the run of OLD.",
)
@click.option(
    "--fail-on",
    metavar="CONDITION",
    multiple=True,
    help='End with exit code 1 if it holds: "flips>2%", "roc_auc<-0.01" (new minus old), or "roc_auc.high<0" (the end '
    "of its interval). Repeatable.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=writable_file,
    help="Write one HTML page with the comparison.",
)
@json_options
@mode_option
@scoring_options("Compute features as of this date")
def command(
    old: Path,
    new: Path,
    data: str | None,
    by: tuple[str, ...],
    group: str | None,
    rows: int,
    moved: float | None,
    fail_on: tuple[str, ...],
    html: Path | None,
    as_json: bool,
    output: Path | None,
    settings: ScoringSettings,
) -> int:
    """Compare two models (run or model directories): settings, columns, levels, features, decisions, metrics, sizes.

    With DATA (a file, glob, folder or URL), both predict its rows: decisions that flip, the columns that explain why,
    and, if it has the target, metrics with 95% intervals of a paired bootstrap. DATA may be larger than memory.

    \b
    Exit codes:
      0  the models were compared, and no --fail-on condition holds
      1  a --fail-on condition holds; a line names it
      2  a condition is malformed, or is about what was not compared
      5  a model or DATA cannot be read
    """
    from gpupipe.inference.diff.conditions import DiffCondition

    for text in fail_on:
        DiffCondition.parse(text)
    if fail_on and data is None:
        raise ConfigError("--fail-on needs DATA", fix="name a table that both models predict")
    from gpupipe.files.jsonfile import plain
    from gpupipe.inference.diff.model_diff import diff_models
    from gpupipe.inference.diff.shared_table import SharedTable
    from gpupipe.inference.model import load_model
    from gpupipe.inference.scoring.local import adjust_tables
    from gpupipe.inference.scoring.outputs import scoring_inputs
    from gpupipe.io.output_conflicts import require_no_conflict

    inputs = [*scoring_inputs(old, data, settings.tables), *scoring_inputs(new, None, None)]
    for path in filter(None, (html, output)):
        require_no_conflict(path, inputs)
    own: dict[str, Any] = {"allow_code": settings.allow_code, "trust": settings.trust}
    models = [load_model(path, settings.device, **own) for path in (old, new)]
    table = None
    if data is not None:
        further = adjust_tables(models[1], settings.tables, settings.adjust)
        table = SharedTable(data, further, settings.as_of, settings.adjust)
    found = diff_models((models[0], models[1]), table, by, rows, moved, group)
    held = found.failing(fail_on)
    write_page(found, html, data)
    code = FAILED if held else 0
    document = plain({"failed": held, "exit_code": code, **found.to_json()})
    emit(document, as_json, output, lambda: click.echo(rewrite_terms("\n".join(found.lines()))), inputs, True)
    for text in held:
        click.echo(f"--fail-on {text}", err=True)
    return code
