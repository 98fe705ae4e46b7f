"""Command ``gpupipe compare RUN RUN...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import click

from gpupipe.cli.options import emit, json_options
from gpupipe.cli.tables import make_table, print_table

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.pipeline.comparison.comparison import RunComparison


@click.command
@click.argument("runs", metavar="RUN RUN...", type=click.Path(path_type=Path), nargs=-1)
@json_options
def command(runs: tuple[Path, ...], as_json: bool, output: Path | None) -> None:
    """Compare finished runs with the first one: metrics, settings, columns, data, devices and versions.

    Differences of metrics have 95% intervals, by a paired bootstrap, if both runs tested the same rows: equal row
    numbers, targets and folds in predictions.parquet. Otherwise a line says why not. An interval without 0 is marked
    with *.

    \b
    Exit codes:
      0  the runs were compared
      2  fewer than two runs
      5  one is not a finished run, or cannot be read
    """
    from gpupipe.files.jsonfile import plain
    from gpupipe.io.output_conflicts import ProtectedInput
    from gpupipe.pipeline.comparison.comparison import compare_runs

    if len(runs) > len(ascii_uppercase):
        raise click.UsageError(f"expected at most {len(ascii_uppercase)} runs; got {len(runs)}")
    found = compare_runs(runs)
    inputs = [ProtectedInput(run, "the run", folder="closed") for run in found.runs]
    emit(plain(found.to_json()), as_json, output, lambda: _show(found), inputs)


def _show(found: RunComparison) -> None:
    from gpupipe.names import enumerate_names
    from gpupipe.report.text import printable

    letters = dict(zip(found.runs, ascii_uppercase, strict=False))
    lines = [f"{letter}  {run}" for run, letter in letters.items()]
    click.echo(printable("\n".join([*lines, ""]), keep="\n"))
    _show_metrics(found.metrics, letters)
    lines = [f"{letters[run]} has no intervals: {why}" for run, why in found.unpaired.items()]
    click.echo(printable("\n".join([*lines, ""]), keep="\n"))
    _show_values("", found.facts, letters)
    if found.settings:
        click.echo()
        _show_values("setting", found.settings, letters)
    lines = []
    for kind, differing in (("input", found.inputs), ("matrix", found.features)):
        for each in differing:
            having = ", ".join(letters[run] for run in each["runs"])
            lines.append(f"{kind} columns only in {having}: {enumerate_names(each['columns'])}")
    for run, notes in found.notes.items():
        lines += [f"noted only by {letters[run]}: {note}" for note in notes]
    click.echo("\n".join(["", *map(printable, lines or ["the columns and the notes about the data are the same"])]))


def _show_metrics(metrics: pd.DataFrame, letters: Mapping[str, str]) -> None:
    from gpupipe.report.text import metric_title, number, signed

    others = list(letters.values())[1:]
    compared = chain.from_iterable((f"{letter} − A", f"95% interval of {letter}") for letter in others)
    table = make_table(["metric", *letters.values(), *compared], ["metric"])
    for metric, rows in metrics.groupby("metric", sort=False):
        cells = [number(value) for value in rows["value"]]
        for _, _, value, *ends in rows.iloc[1:].itertuples(index=False):
            change, low, high = ("" if end != end else signed(end, abs(value)) for end in ends)
            cells += [change, f"{'* ' * (ends[1] * ends[2] > 0)}{low} to {high}" if low else ""]
        table.add_row(metric_title(str(metric)), *cells)
    print_table(table)


def _show_values(heading: str, values: Mapping[str, Sequence[Any]], letters: Mapping[str, str]) -> None:
    names = [heading, *letters.values()]
    table = make_table(names, names, folded=names)
    for name, each in values.items():
        table.add_row(*(_cell(name, value) for value in (name, *each)))
    print_table(table)


def _cell(name: str, value: Any) -> str:
    from gpupipe.report.text import number, printable
    from gpupipe.units import format_duration

    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "seconds" and isinstance(value, float):
        return format_duration(value)
    return number(value) if value is None or isinstance(value, int | float) else printable(str(value))
