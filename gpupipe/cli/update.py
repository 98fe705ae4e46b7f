"""Command ``gpupipe update RUN_OR_MODEL NEW``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import PATH_OR_URL, emit

if TYPE_CHECKING:
    from gpupipe.pipeline.update.update import ModelUpdate


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW", type=PATH_OR_URL)
@click.option(
    "--with",
    "old",
    metavar="OLD",
    type=PATH_OR_URL,
    help="The rows of before: features and model are learned again from them and the new ones.",
)
@click.option(
    "--newest",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="Share of the new rows, the latest, that both models are compared on.",
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Loss of the first metric that the challenger may have.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The run directory to write. Default: a new one in runs/."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout: verdict, figures and path.")
@click.option("--quiet", is_flag=True, help="Print errors and the verdict only.")
def command(
    model: Path,
    new: str,
    old: str | None,
    newest: float,
    margin: float,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a challenger of RUN_OR_MODEL on the table NEW, and compare both on the newest rows, which neither has seen.

    Without --with, the training continues: trees are added to those of XGBoost or LightGBM, and the features stay as
    they were learned. Rows that are not later than the last training row are skipped, if the model was split by time:
    NEW may have all months. Nothing is overwritten: `gpupipe promote` lets the challenger take over. There is no
    --untrusted: the training takes its settings from the model.

    \b
    promote  the challenger is better, or worse by less than --margin
    refuse   it is worse by more, on all rows or on a slice of evaluate.by
    keep     the rows are too few to tell

    \b
    Exit codes:
      0  promote
      6  keep or refuse
      2 to 5, 130, 143  an error, or a stopped run; see the documentation
    """
    from gpupipe.cli.interrupts import stopped_by_signals
    from gpupipe.errors import QualityError
    from gpupipe.pipeline.update.update import update_model
    from gpupipe.timeline.display.console import Console
    from gpupipe.timeline.safe_points import StopSignal

    stop_signal, shown = StopSignal(), Console(quiet=quiet)
    settings = {"newest": newest, "margin": margin}
    with stopped_by_signals(stop_signal, shown.stopping), shown as console:
        found = update_model(model, new, old, output, **settings, listeners=[console], stop_signal=stop_signal)
    emit(found.to_json(), as_json, None, lambda: _show(found))
    if found.verdict != "promote":
        what = f"the challenger should not take over: {found.verdict}"
        raise QualityError(what, where=str(found.run.path), fix="see the reasons above; the model in use is unchanged")


def _show(found: ModelUpdate) -> None:
    from gpupipe.cli.tables import make_table, print_table
    from gpupipe.report.text import metric_title, number, printable, signed

    table = make_table(["metric", "in use", "challenger", "difference", "95% interval"], ["metric"])
    for name, own in found.comparison.metrics.items():
        change, *ends = (signed(end, abs(own.new)) for end in (own.difference, own.low, own.high))
        table.add_row(metric_title(name), number(own.old), number(own.new), change, " to ".join(ends))
    print_table(table)
    rows = f"{found.how} with {found.n_trained:,} new rows, compared on {found.comparison.n_rows:,}"
    if found.n_learned_before:
        rows += f"; {found.n_learned_before:,} were learned before"
    lines = [rows, *found.reasons, f"{found.verdict}: {found.run.path}"]
    click.echo(printable("\n".join(lines), keep="\n"))
