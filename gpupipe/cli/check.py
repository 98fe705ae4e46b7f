"""Command ``gpupipe check CONFIG``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import no_code_option, override_option
from gpupipe.names import count_noun
from gpupipe.report.text import printable

if TYPE_CHECKING:
    from gpupipe.config import Config


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@override_option
@click.option("--no-data", is_flag=True, help="Check the configuration alone: open no table, run no code and no query.")
@no_code_option
def command(config: Path, overrides: tuple[str, ...], no_data: bool, no_code: bool) -> None:
    """Check CONFIG, then CONFIG against a sample of its data, and report all errors at once, each with its line.

    1. The configuration alone: YAML syntax, keys, values, and the names of ops, models and metrics. If it has errors,
    the check ends here.

    2. About 20,000 rows of each table, unless --no-data is given: columns and their kinds, the target, the rules of
    `data:`, every feature op (fitted to these rows), metrics, models and the split. If these rows are too few to
    decide, up to 1,000,000 are read. This step runs the code that CONFIG names: prepare hooks, kernels, estimators and
    SQL queries.

    Not checked: the other rows, the GPU (see `gpupipe doctor`), the cluster, and whether the run fits into memory (see
    `gpupipe plan`). A problem that the other rows may resolve is a warning. No model is trained, no GPU library is
    imported, and no file is written.

    \b
    Exit codes:
      0  no errors; there may be warnings
      2  errors in the configuration
      3  a feature op exceeds its limit
      5  a table cannot be read, or contradicts the configuration
    """
    from gpupipe.config import load_config

    checked = load_config(config, overrides)
    models = ", ".join(entry.label for entry in checked.models) or "models by task"
    tables = f" joined with {', '.join(checked.tables)}" if checked.tables else ""
    ops = count_noun(len(checked.features), "feature op")
    if no_code and not no_data:
        from gpupipe.config.redacted_output import redact_output
        from gpupipe.training.preparation.run_inputs import refuse_code

        with redact_output(checked.origin.redactor):
            refuse_code(checked)
    found = [] if no_data else _of_the_data(checked)
    found += [f"warning: {text}" for text in checked.track.absences().values()]
    for line in [f"OK {config}: source {checked.source.label}{tables}; {ops}; {models}", *(f"  {it}" for it in found)]:
        click.echo(printable(checked.origin.redactor.hide(line)))


def _of_the_data(config: Config) -> list[str]:
    """Return the lines about the sampled rows: their number, task, matrix widths and warnings."""
    from gpupipe.config.redacted_output import redact_output
    from gpupipe.features.ops.generate import Generate
    from gpupipe.plan.data_check import check_data
    from gpupipe.training.preparation.run_inputs import code_line

    with redact_output(config.origin.redactor):
        found = check_data(config)
    views = [
        f"{len(features.names)} columns for {', '.join(e.label for e in found.entries if e.params.view == view)}"
        for view, features in found.features.items()
    ]
    n_generated = sum(op.most_columns for op in config.features if isinstance(op, Generate))
    views += [f"generate adds up to {n_generated:,} more"] if n_generated else []
    rows = count_noun(found.n_rows, "row") if found.is_whole else f"a sample of {count_noun(found.n_rows, 'row')}"
    goal = [found.goal.note] if found.goal is not None else []
    lines = ["; ".join([rows, *goal, *views]), *(f"warning: {text}" for text in found.warnings)]
    return [*lines, line] if (line := code_line(config)) else lines
