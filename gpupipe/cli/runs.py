"""Command ``gpupipe runs [FOLDER]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpupipe.cli.options import emit, json_options
from gpupipe.cli.tables import WARNING, make_table, print_table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "started (UTC)", "target", "best model", "metric", "value", "device", "time")


@click.command
@click.argument("folder", type=click.Path(path_type=Path), default="runs")
@click.option("--sort", "sort_by", metavar="METRIC", help="Sort by this metric, best first, and show it.")
@json_options
def command(folder: Path, sort_by: str | None, as_json: bool, output: Path | None) -> None:
    """List the runs in FOLDER (default: runs) and the folders below it, the newest first.

    Each has its target, its best model with the metric that orders the leaderboard, the device and the time. Runs
    that are running, were killed or have left checkpoints are listed as such; those that cannot be read have a
    warning. The JSON document has all metrics.
    """
    import json

    from gpupipe.pipeline.comparison.run_list import list_runs

    found = list_runs(folder, sort_by)
    records: list[dict[str, Any]] = json.loads(found.to_json(orient="records", date_format="iso"))
    emit({"folder": str(folder), "runs": records}, as_json, output, lambda: _show(folder, found))


def _show(folder: Path, found: pd.DataFrame) -> None:
    from gpupipe.report.text import metric_title, number, printable, spread
    from gpupipe.units import format_duration

    if found.empty:
        click.echo(f"no runs in {printable(str(folder))}; `gpupipe run CONFIG` writes one")
        return
    table, warnings = make_table(COLUMNS, (*COLUMNS[:5], "device"), folded=COLUMNS[:1]), []
    for row in found.astype(object).where(found.notna(), None).to_dict("records"):
        run, started = printable(row["run"]), "" if row["started"] is None else f"{row['started']:%Y-%m-%d %H:%M}"
        if row["status"] != "finished":
            table.add_row(run, started, "", row["status"])
            warnings += [f"{WARNING}{run}: {printable(row['note'])}"] * bool(row["note"])
            continue
        texts = [printable(row[name]) for name in ("target", "model")]
        metric, took = metric_title(printable(row["metric"])), format_duration(row["seconds"])
        value = f"{number(row['value'])} {spread(row, row['metric'])}".rstrip()
        table.add_row(run, started, *texts, metric, value, row["device"], took)
    print_table(table, warnings)
