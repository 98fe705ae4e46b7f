"""``gpupipe check CONFIG``: validate everything, import and read nothing else."""

from __future__ import annotations

from pathlib import Path

import click


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field: --set seed=8.")
def command(config: Path, overrides: tuple[str, ...]) -> None:
    """Validate CONFIG: every mistake at once, each with its line, and a "did you mean".

    No data is read and no library of the computation is imported.
    """
    from gpupipe.config import load_config

    checked = load_config(config, overrides)
    models = ", ".join(entry.label for entry in checked.models) or "models by task"
    tables = f" joined with {', '.join(checked.tables)}" if checked.tables else ""
    ops = f"{len(checked.features)} feature op{'s' * (len(checked.features) != 1)}"
    click.echo(f"OK {config}: source {checked.origin.borrowed.hide(checked.source.label)}{tables}; {ops}; {models}")
