"""``gpupipe init DATA --target COLUMN``: a starter configuration for a table."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import click

from gpupipe.cli.source_options import parse_source_options, source_option
from gpupipe.errors import ConfigError


@click.command
@click.argument("data")
@click.option("--target", metavar="COLUMN", help="The column to predict; its position where the file has no header.")
@click.option("--clustering", is_flag=True, help="Predict nothing: find groups of like rows.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="CONFIG", help="Default: DATA's name + .yaml.")
@click.option("--force", is_flag=True, help="Overwrite CONFIG, if it is a configuration.")
@source_option
def command(
    data: str,
    target: str | None,
    clustering: bool,
    output: Path | None,
    force: bool,
    source_options: tuple[str, ...],
) -> None:
    """Read DATA (a file, glob, folder or URL) and write a configuration for it that runs as it is.

    The configuration says beside each setting what was found in the data: identifiers, dates, columns that restate the
    target, marks for missing values. What --source states is not guessed and goes into the configuration. On a machine
    with a GPU, the models are ones that train there. Without --target, nothing is written: the columns are listed, and
    those that look like a target.
    """
    if clustering and target is not None:
        raise ConfigError("--clustering has no target", where="the command line", fix="leave out one of the two")
    source = None
    if source_options:
        from gpupipe.io.settings import TableSource

        source = parse_source_options(source_options, TableSource(path=data))
    config = output if output is not None else Path(f"{_stem(data)}.yaml")
    if target is None and not clustering:
        from gpupipe.starter.starter import list_columns

        click.echo(list_columns(data, source))
        return
    if os.path.lexists(config) and not force:
        raise ConfigError(f"{config} already exists", fix="--force overwrites it; -o writes another")
    from gpupipe.io.output_conflicts import ProtectedInput, require_no_conflict
    from gpupipe.pipeline.atomic.file import require_writable_file, write_text

    require_writable_file(config)
    require_no_conflict(config, [ProtectedInput(data, "the input")])
    if config.exists():
        _require_configuration(config)

    from gpupipe.backends import device_report
    from gpupipe.report.text import printable
    from gpupipe.starter.starter import make_clustering_starter, make_starter

    if target is None:
        made = make_clustering_starter(data, config, source)
    else:
        made = make_starter(data, target, config, device_report(), source)
    write_text(config, made.text)
    for line in [*made.summary, f"wrote {config}; next: gpupipe run {quote(str(config))}"]:
        click.echo(printable(line))


def _require_configuration(config: Path) -> None:
    """Raise ConfigError unless a file is empty or a configuration: --force overwrites nothing else."""
    from gpupipe.config.load import is_configuration

    if not is_configuration(config):
        fix = "delete it yourself if it is not needed, or name another file with -o"
        raise ConfigError("--force overwrites configurations only, and this is not one", where=str(config), fix=fix)


def _stem(data: str) -> str:
    """Return the name of the table without its endings, as a file name: ``sales.csv.gz`` is ``sales``."""
    name = data.split("?")[0].rstrip("/").rpartition("/")[2]
    stem = name.split(".")[0] if not name.startswith(".") else name
    return "".join(letter for letter in stem if letter not in '*?[]<>|:"').strip() or "table"
