"""Command ``gpupipe export RUN_OR_MODEL -o PATH``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gpupipe.cli.options import allow_code_option, device_option, mode_option, output_file_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpupipe.backends import Device
    from gpupipe.inference.model import Model
    from gpupipe.inference.onnx.export import OnnxExport
    from gpupipe.inference.onnx.inputs import OnnxInput
    from gpupipe.inference.sql.inputs import SqlInput
    from gpupipe.inference.targets.comparison import RuntimeComparison


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@output_file_option(
    "The folder to write, new or empty; with --format onnx or sql, the file to write.",
    metavar="PATH",
    required=True,
    callback=None,
)
@mode_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["folder", "onnx", "sql"]),
    default="folder",
    show_default=True,
    help="folder: the portable model. onnx: one file for ONNX runtimes. sql: one query for a database.",
)
@click.option(
    "--dialect",
    type=click.Choice(["duckdb", "postgres", "sqlite", "snowflake", "bigquery", "spark"]),
    help="With --format sql: the database. DuckDB and SQLite run the query on the recorded rows first.",
)
@click.option(
    "--table",
    "tables",
    metavar="[NAME=]TABLE",
    multiple=True,
    help="With --format sql: the table with the raw columns, or with NAME= an event table of the model. Repeatable.  "
    "[default: input; event tables by their names]",
)
@click.option("--as-of", metavar="DATE", help="With --format sql: use events before this date.")
@click.option("--key", "keys", metavar="COLUMN", multiple=True, help="With --format sql: a column to copy. Repeatable.")
@click.option("--features", is_flag=True, help="With --format sql: return the features too.")
@click.option("--rules", is_flag=True, help="With --format sql: return the rules of data: that a row violates.")
@click.option(
    "--uri", metavar="URI", help="With --dialect postgres: a database that runs the query on the recorded rows."
)
@device_option
@allow_code_option
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    output: Path,
    format_: Literal["folder", "onnx", "sql"],
    device: Device,
    allow_code: bool,
    quiet: bool,
    **query: Any,
) -> None:
    """Copy the model of a run directory, or a model directory, into a folder, or write it as one ONNX or SQL file.

    The folder or file appears only when it is complete and verified with the recorded rows of the model. There is no
    --untrusted: copy the directory of an untrusted model, and run `gpupipe verify --untrusted`.
    """
    from gpupipe.cli.verify import summary
    from gpupipe.files.file import require_writable_file
    from gpupipe.inference.copy import copy_model
    from gpupipe.inference.model import load_model

    require_format(format_, query)
    if format_ == "sql":
        require_writable_file(output)
        found = load_model(model, device, allow_code=allow_code)
        lines = write_query(found, output, query)
    elif format_ == "onnx":
        require_writable_file(output)  # before the model is opened
        lines = onnx_summary(load_model(model, device, allow_code=allow_code).to_onnx(output))
    else:
        lines = summary(copy_model(model, output, device, allow_code), str(output))
    if not quiet:
        click.echo("\n".join(lines), err=True)


OPTIONS = {"keys": "key", "tables": "table", "as_of": "as-of"}


def require_format(format_: str, query: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option is for another format, or the dialect is not given."""
    from gpupipe.errors import ConfigError

    given = [f"--{OPTIONS.get(name, name)}" for name, value in query.items() if value]
    if format_ == "sql" and not query["dialect"]:
        raise ConfigError("--format sql needs a dialect", where="--dialect", fix="add --dialect duckdb, or another one")
    if format_ != "sql" and given:
        raise ConfigError(f"{given[0]} is for --format sql", where=f"--format {format_}", fix="add --format sql")


def write_query(model: Model, output: Path, query: dict[str, Any]) -> list[str]:
    """Write a model as a query, and return a summary as lines of text."""
    from gpupipe.cli.options import parse_pairs
    from gpupipe.errors import ConfigError
    from gpupipe.io.output_conflicts import require_no_conflict
    from gpupipe.model_parts.folder import model_inputs
    from gpupipe.report.text import printable

    require_no_conflict(output, model_inputs(model.folder))
    given = query.pop("tables")
    rows = [each for each in given if "=" not in each]
    if len(rows) > 1:
        raise ConfigError(
            f"--table: two tables of rows, {rows[0]} and {rows[1]}", fix="write NAME=TABLE for an event table"
        )
    events = parse_pairs([each for each in given if "=" in each], "--table", "NAME=TABLE")
    found = model.to_sql(query.pop("dialect"), rows[0] if rows else None, tables=events, **query)
    found.write(output)
    compared = "not executed: the query is parsed, not compared with the model"
    if found.comparison is not None:
        compared = differences(found.comparison)
    lines = [
        *file_lines(output, found.inputs),
        *(f"events       {each}" for each in found.events),
        f"columns      {', '.join(found.columns)}",
        f"{found.dialect:<13}{compared}",
        *(f"not included {each}" for each in found.omitted),
    ]
    return [printable(line) for line in lines]


def file_lines(path: Path, inputs: Sequence[OnnxInput | SqlInput]) -> list[str]:
    """Return a written file and the columns that it reads, as lines of text."""
    names = ", ".join(each.column.source for each in inputs)
    return [f"file         {path}, {path.stat().st_size:,} bytes", f"inputs       {names or 'none'}"]


def differences(each: RuntimeComparison) -> str:
    """Return a comparison with the model as words."""
    from gpupipe.report.text import number

    moved = f"; {each.moved} more because a feature differs in its last digits" if each.moved else ""
    return f"{each.rows} rows differ by at most {number(each.largest)}{moved}"


def onnx_summary(found: OnnxExport) -> list[str]:
    """Return an exported ONNX file as lines of text."""
    from gpupipe.report.text import printable

    lines = [
        *file_lines(found.path, found.inputs),
        f"outputs      {', '.join(each.name for each in found.outputs)}",
    ]
    for each in found.comparisons:
        lines.append(f"{each.runtime:<15}{differences(each)}")
    lines += [f"not included {each}" for each in found.omitted]
    return [printable(line) for line in lines]
