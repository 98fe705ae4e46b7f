"""Command ``gpupipe history PATH``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from gpupipe.cli.options import emit, json_options
from gpupipe.cli.tables import WARNING, make_table, print_table

COLUMNS = ("created (UTC)", "rows", "period", "made", "verdict")


@click.command
@click.argument("path", metavar="RUN_OR_MODEL_OR_FOLDER", type=click.Path(path_type=Path))
@json_options
def command(path: Path, as_json: bool, output: Path | None) -> None:
    """List the generations of a model, or of a folder of generations with the log of promotions and rollbacks.

    Each has the time of its training, the number of new rows, their period, how the estimator was made, and the verdict
    on it as a challenger. A folder marks its current generation. There is no --untrusted: only JSON files are read.
    """
    from gpupipe.inference.model_history import model_history
    from gpupipe.model_parts.folder import model_inputs

    found = model_history(path)
    emit(found, as_json, output, lambda: _show(found), model_inputs(path))


def _show(found: Mapping[str, Any]) -> None:
    from gpupipe.report.text import printable

    is_folder = "folder" in found
    table, lines = make_table(("", "generation" if is_folder else "model", *COLUMNS), COLUMNS[2:]), list[str]()
    for each in found["generations"]:
        name = each["id"] if is_folder else each["manifest_sha256"][:12]
        mark = "*" if each.get("is_current") else ""
        if each.get("problem"):
            table.add_row(mark, name)
            lines.append(f"{WARNING}{name}: {each['problem']}")
            continue
        rows = "" if each["rows"] is None else f"{each['rows']:,}"
        cells = (each["created"][:16], rows, " to ".join(each["period"] or ()), each["how"], each["verdict"] or "")
        table.add_row(mark, name, *map(printable, cells))
        lines += [f"{name}: {reason}" for reason in each["reasons"]]
    print_table(table, map(printable, [*lines, *(_log(found) if is_folder else ())]))


def _log(found: Mapping[str, Any]) -> Iterable[str]:
    """Yield the lines of the log of a folder."""
    for switch in found["promotions"]:
        origin = "" if switch["from"] is None else f" from {switch['from']}"
        yield f"{switch['time'][:19]} {switch['action']}{origin} to {switch['to']} by {switch['user']}"
    if n_torn := found["unreadable_lines"]:
        yield f"{WARNING}{n_torn} lines of the log cannot be read"
