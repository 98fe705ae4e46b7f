"""Scores of gpupipe within a time limit, compared with scikit-learn, skrub, FLAML and AutoGluon on the same folds.

    python -m benchmarks.answers tables
    python -m benchmarks.answers run --output RESULTS.jsonl --contenders gpupipe-best,autogluon --limit 60 --folds 1
    python -m benchmarks.answers summary RESULTS.jsonl --reference autogluon@60 --json FILE --markdown FILE
    python -m benchmarks.answers published RESULTS.jsonl --contender gpupipe-best@60 --talent FOLDER

Each contender is a program in a separate interpreter. It receives the training rows of a fold, its test rows without
the target, and the limit; the runner scores its predictions. See benchmarks/README.md for the environments.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.answers.cells import Resources
from benchmarks.answers.published import rank_published, read_published, render_ranks
from benchmarks.answers.records import CellRecord, read_records
from benchmarks.answers.roster import NAMES, TABLES, parse_pythons, select_contenders
from benchmarks.answers.runner import MachineIsBusyError, parse_shard, plan_cells, run_cells, write_tables
from benchmarks.answers.splits import FOLDS
from benchmarks.answers.summary import render, summarize
from benchmarks.answers.tables import select_tables

TIMEOUT_FACTOR, TIMEOUT_EXTRA_S = 3.0, 900.0


@click.group(help=__doc__.split("\n\n", maxsplit=1)[0])
def main() -> None:
    """Run the command line."""


@main.command("tables")
def list_tables() -> None:
    """List the tables, small ones first, with what is dropped from them."""
    for table in select_tables():
        dropped = "; ".join(f"{name} ({why})" for name, why in table.drop.items())
        size = f"{table.n_rows:,} × {table.n_features}"
        click.echo(f"{table.name}: {table.source} {table.item}, {size}, {table.task}, {table.split}, {table.licence}")
        if dropped:
            click.echo(f"    without {dropped}")


@main.command("run")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="JSON lines; cells in it are skipped.")
@click.option("--tables", "names", default="", help="Names or sources of tables, separated by commas. Default: all.")
@click.option("--contenders", default=",".join(NAMES), help=f"Separated by commas: {', '.join(NAMES)}. Default: all.")
@click.option(
    "--folds", type=click.IntRange(1, FOLDS), default=FOLDS, show_default=True, help="Number of folds to run."
)
@click.option("--limit", type=float, default=60.0, show_default=True, help="Time limit of a training in seconds.")
@click.option(
    "--shard", default="1/1", show_default=True, help="Run every n-th table: 2/4 is the second of four parts."
)
@click.option("--cores", type=int, default=os.cpu_count() or 1, show_default=True, help="Cores for each contender.")
@click.option("--tables-dir", type=click.Path(path_type=Path), required=True, help="Folder of the tables as Parquet.")
@click.option("--python", "pythons", multiple=True, help="NAME=PATH of tables, skrub, flaml, autogluon. Repeatable.")
@click.option("--allow-busy", is_flag=True, help="Measure although other programs use the machine.")
@click.option("--retry", is_flag=True, help="Run cells again that failed.")
def run_benchmark(
    output: Path,
    names: str,
    contenders: str,
    folds: int,
    limit: float,
    shard: str,
    cores: int,
    tables_dir: Path,
    pythons: Sequence[str],
    allow_busy: bool,
    retry: bool,
) -> None:
    """Run the cells and append their results to the output."""
    try:
        interpreters = parse_pythons(pythons)
        number, count = parse_shard(shard)
        tables = select_tables(_words(names))[number::count]
        cells = plan_cells(tables, select_contenders(_words(contenders), interpreters), folds)
        write_tables(tables, tables_dir, interpreters.get(TABLES))
        resources = Resources(limit, cores, TIMEOUT_FACTOR * limit + TIMEOUT_EXTRA_S)
        for record in run_cells(cells, tables_dir, output, resources, allow_busy=allow_busy, retry=retry):
            print(_describe(record), file=sys.stderr, flush=True)
    except (ValueError, MachineIsBusyError) as error:
        raise click.ClickException(str(error)) from None


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


def _describe(record: CellRecord) -> str:
    result = record.error.splitlines()[-1] if record.error else f"{record.metric} {record.score:.5f}"
    return f"{record.table}, fold {record.fold}, {record.label}: {result}; {record.wall_s:.0f} s"


@main.command("summary")
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--reference", required=True, help="Contender to compare with, and its limit: autogluon@600.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the summary to this JSON file.")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write its tables to this file.")
def print_summary(results: Sequence[Path], reference: str, json_path: Path | None, markdown_path: Path | None) -> None:
    """Print the differences of all contenders to a reference."""
    try:
        summary = summarize(read_records(results), reference)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if json_path:
        json_path.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf8")
    if markdown_path:
        markdown_path.write_text(render(summary) + "\n", encoding="utf8")
    click.echo(render(summary))


@main.command("published")
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--contender", default="gpupipe-best@60", show_default=True, help="Contender, and its limit.")
@click.option("--talent", type=click.Path(exists=True, path_type=Path), required=True, help="Folder results of TALENT.")
def print_ranks(results: Sequence[Path], contender: str, talent: Path) -> None:
    """Print the rank of a contender among the published results of TALENT."""
    try:
        ranks = rank_published(read_records(results), contender, read_published(talent))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(render_ranks(ranks))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.answers")
