"""Command ``gpupipe init DATA --target COLUMN``."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from gpupipe.cli.options import PATH_OR_URL, output_file_option
from gpupipe.cli.source_options import parse_source_options, source_option
from gpupipe.errors import ConfigError


@click.command
@click.argument("data", type=PATH_OR_URL)
@click.option(
    "--target",
    "targets",
    metavar="COLUMN",
    multiple=True,
    help="The column to predict, or its position if the file has no header.",
)
@click.option("--clustering", is_flag=True, help="Group similar rows; there is no column to predict.")
@output_file_option(
    "The configuration file to write. Default: the name of DATA with .yaml.",
    metavar="CONFIG",
    force="Replace CONFIG if it is a configuration or empty.",
    callback=None,
)
@source_option
def command(
    data: str,
    targets: tuple[str, ...],
    clustering: bool,
    output: Path | None,
    source_options: tuple[str, ...],
) -> None:
    """Read DATA (a file, glob, folder or URL) and write a configuration for it that runs without changes.

    Comments in the configuration explain what was found in the data: identifiers, dates, columns that leak the target,
    markers of missing values. Options given with --source are not guessed but copied into the configuration. On a
    machine with a GPU, the models are ones that train on it.

    Without --target, no file is written; the columns are listed, with candidates for the target.
    """
    if len(targets) > 1:
        fix = "write it for one, then list the others in source.target"
        raise ConfigError(f"--target: expected one column; got {', '.join(targets)}", where="the command line", fix=fix)
    target = targets[0] if targets else None
    if clustering and target is not None:
        raise ConfigError("--clustering and --target exclude each other", where="the command line", fix="remove one")
    source = None
    if source_options:
        from gpupipe.io.settings import TableSource

        source = parse_source_options(source_options, TableSource(path=data))
    config = output if output is not None else Path(f"{_stem(data)}.yaml")
    if target is None and not clustering:
        from gpupipe.starter.starter import list_columns

        click.echo(list_columns(data, source))
        return
    from gpupipe.files.file import require_writable_file, write_text
    from gpupipe.io.output_conflicts import ProtectedInput, require_no_conflict

    require_no_conflict(config, [ProtectedInput(data, "the input")])
    require_writable_file(config)
    if config.exists():
        _require_configuration(config)

    from gpupipe.backends import device_report
    from gpupipe.report.text import printable
    from gpupipe.starter.starter import make_clustering_starter, make_starter

    if target is None:
        made = make_clustering_starter(data, config, source)
    else:
        made = make_starter(data, target, config, device_report(), source)
    write_text(config, made.text, is_private=False)
    for line in [*made.summary, f"wrote {config}; next: gpupipe run {quote(str(config))}"]:
        click.echo(printable(line))


def _require_configuration(config: Path) -> None:
    """Raise ConfigError unless a file is empty or a configuration."""
    from gpupipe.config.load import is_configuration

    if not is_configuration(config):
        fix = "delete the file if it is not needed, or choose another one with -o"
        raise ConfigError("--force overwrites configurations only; this is another file", where=str(config), fix=fix)


def _stem(data: str) -> str:
    """Return the name of the table without its suffixes, as a file name: ``sales`` for ``sales.csv.gz``."""
    name = data.split("?")[0].rstrip("/").rpartition("/")[2]
    stem = name.split(".")[0] if not name.startswith(".") else name
    return "".join(letter for letter in stem if letter not in '*?[]<>|:"').strip() or "table"
