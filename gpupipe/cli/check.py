"""``gpupipe check CONFIG``: validate the configuration, and resolve it against some rows of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.report.text import printable

if TYPE_CHECKING:
    from gpupipe.config import Config


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field: --set seed=8.")
@click.option("--no-data", is_flag=True, help="Validate the configuration alone: open no table, import nothing.")
@click.option("--no-code", is_flag=True, help="Refuse a configuration that names Python code, instead of running it.")
def command(config: Path, overrides: tuple[str, ...], no_data: bool, no_code: bool) -> None:
    """Validate CONFIG: every mistake at once, each with its line, and a "did you mean".

    Columns, kinds, ops, metrics and models are resolved against some 20,000 rows of the tables. For that, the Python
    code that CONFIG names is run: prepare hooks, kernels, estimators. No library of a GPU is imported, and nothing is
    trained. Exit code 5: a table cannot be read, or contradicts the configuration.
    """
    from gpupipe.config import load_config

    checked = load_config(config, overrides)
    hide = checked.origin.redactor.hide
    models = ", ".join(entry.label for entry in checked.models) or "models by task"
    tables = f" joined with {', '.join(checked.tables)}" if checked.tables else ""
    ops = f"{len(checked.features)} feature op{'s' * (len(checked.features) != 1)}"
    if no_code and not no_data:
        from gpupipe.config.redacted_output import redact_output
        from gpupipe.pipeline.run_inputs import refuse_code

        with redact_output(checked.origin.redactor):
            refuse_code(checked)
    found = [] if no_data else _of_the_data(checked)
    source = hide(checked.source.label)
    click.echo(printable(f"OK {config}: source {source}{tables}; {ops}; {models}"))
    for line in found:
        click.echo(line)


def _of_the_data(config: Config) -> list[str]:
    """Return lines on what the rows show."""
    from gpupipe.config.redacted_output import redact_output
    from gpupipe.pipeline.data_check import check_data
    from gpupipe.pipeline.run_inputs import code_line

    with redact_output(config.origin.redactor):
        found = check_data(config)
    views = [
        f"{len(features.names)} columns for {', '.join(e.label for e in found.entries if e.params.view == view)}"
        for view, features in found.features.items()
    ]
    rows = f"{found.n_rows:,} rows" if found.is_whole else f"a sample of {found.n_rows:,} rows"
    goal = [found.goal.note] if found.goal is not None else []
    lines = ["; ".join([rows, *goal, *views]), *(f"warning: {text}" for text in found.warnings)]
    lines += [line] if (line := code_line(config)) else []
    return [f"  {printable(config.origin.redactor.hide(line))}" for line in lines]
