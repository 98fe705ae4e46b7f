"""Command ``gpupipe reproduce RUN``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import emit, json_options

if TYPE_CHECKING:
    from gpupipe.pipeline.provenance.reproduction import Reproduction


@click.command
@click.argument("run", type=click.Path(path_type=Path))
@json_options
def command(run: Path, as_json: bool, output: Path | None) -> int:
    """Repeat a run from the same tables and settings, and compare every file with those of the run.

    Hashes, versions and snapshots of the tables are compared first. The repetition is written to a temporary directory
    and removed. Start it in the folder where the run was started, as paths in its configuration may be relative.

    \b
    Exit codes:
      0  equal to the last bit
      1  a file differs: the first one, and likely reasons, are printed
      5  a table has changed since the run
    """
    from gpupipe.cli.interrupts import stopped_by_signals
    from gpupipe.model_parts.folder import model_inputs
    from gpupipe.pipeline.provenance.reproduction import reproduce_run
    from gpupipe.timeline.display.console import Console
    from gpupipe.timeline.safe_points import StopSignal

    stop_signal, shown = StopSignal(), Console(quiet=True)
    with stopped_by_signals(stop_signal, shown.stopping), shown as console:
        found = reproduce_run(run, listeners=[console], stop_signal=stop_signal)
    code = int(not found.is_equal)
    document = {"run": str(run), "exit_code": code, **found.to_json()}
    emit(document, as_json, output, lambda: click.echo("\n".join(summary(found))), model_inputs(run))
    return code


def summary(found: Reproduction) -> list[str]:
    """Return a reproduction as lines of text."""
    from gpupipe.names import enumerate_names
    from gpupipe.report.text import printable

    if found.is_equal:
        return [f"equal to the last bit: {found.n_files} files, on {found.environment}"]
    lines = [f"differs first in {found.differs[0]}: {len(found.differs)} of {found.n_files} files differ"]
    lines += [f"files        {enumerate_names(found.differs, 8)}", f"repeated on  {found.environment}"]
    return list(map(printable, [*lines, *(f"likely       {reason}" for reason in found.reasons)]))
