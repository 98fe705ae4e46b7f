"""List of the columns of a table, with candidates for the target."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from gpupipe.io.settings import TableSource
from gpupipe.report.text import printable
from gpupipe.starter.columns import TableColumns, inspect_columns
from gpupipe.starter.target import suggest_targets
from gpupipe.starter.useless_columns import shown

EXAMPLES = 3
LONGEST_NAME = 40


def list_columns(path: str, source: TableSource | None = None) -> str:
    """Return a line for each column of the table at `path`, and suggestions for ``--target``.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    columns = inspect_columns(path, source)
    width = min(LONGEST_NAME, max(map(len, columns.facts)))
    header = "" if columns.source_table.has_header else "; the file has no header, so they are numbered"
    lines = [f"{Path(path).name}: {columns.n_rows:,} rows, {len(columns.facts)} columns{header}", ""]
    lines += [_line(name, columns, width) for name in columns.facts]
    lines += ["", *_suggestions(path, columns)]
    return "\n".join(map(printable, lines))


def _line(name: str, columns: TableColumns, width: int) -> str:
    facts = columns.facts[name]
    missing = f", {facts.n_null:,} missing" if facts.n_null else ""
    about = columns.dropped.get(name) or ", ".join(shown(v) for v in facts.distinct.slice(0, EXAMPLES).to_pylist())
    return f"  {name:{width}}  {columns.kind(name):11}  {facts.n_distinct:,} distinct{missing}; {about}"


def _suggestions(path: str, columns: TableColumns) -> list[str]:
    likely = suggest_targets(columns.facts, columns.dropped)
    if not likely:
        return [f"Choose what to predict: gpupipe init {quote(path)} --target COLUMN"]
    lines = ["Choose what to predict. Likely targets:", ""]
    command = f"gpupipe init {quote(path)} --target"
    return lines + [f"  {command} {quote(name)}  # {reason}" for name, reason in likely.items()]
