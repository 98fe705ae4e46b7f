"""``gpupipe run CONFIG``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option

if TYPE_CHECKING:
    from gpupipe.backends import Device


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field: --set seed=8.")
@device_override_option
@click.option(
    "--cluster", metavar="local|ADDRESS|FILE", help="Workers that share the run: started here, or a scheduler's."
)
@click.option("--output", type=click.Path(path_type=Path), help="The run directory itself.")
@click.option("--resume", is_flag=True, help="Take up what an interrupted run has kept of the same stages.")
@click.option("--nproc", type=click.IntRange(min=1), default=1, help="Processes that share the training of a network.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout: metrics and run directory.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    config: Path,
    overrides: tuple[str, ...],
    device: Device | None,
    cluster: str | None,
    output: Path | None,
    resume: bool,
    nproc: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Take the table of CONFIG to a trained, evaluated, portable model.

    Shows each stage as it runs, ends with the leaderboard, and leaves a run directory with the model, the metrics, the
    predictions, a timeline and a report.
    """
    if cluster is not None and nproc > 1:
        raise click.UsageError("--nproc does not go with --cluster: there the workers share the training")
    from gpupipe.cli.interrupts import stopped_by_signals
    from gpupipe.config import load_config
    from gpupipe.config.cluster import override_of
    from gpupipe.models.neural.ranks.torchrun import torchrun_driver
    from gpupipe.pipeline.display.console import Console
    from gpupipe.pipeline.limits.safe_points import StopSignal

    extra = [] if device is None else [f"device={device}"]
    extra += [] if cluster is None else [override_of(cluster)]
    settings = load_config(config, [*overrides, *extra])
    stop_signal, shown = StopSignal(), Console(quiet=quiet, as_json=as_json)
    with torchrun_driver() as is_driver, stopped_by_signals(stop_signal, shown.stopping), shown as console:
        if not is_driver:
            return
        from gpupipe.pipeline.leaderboard import leaderboard_rows
        from gpupipe.pipeline.run import run_pipeline

        done = run_pipeline(settings, output, [console], resume=resume, n_processes=nproc, stop_signal=stop_signal)
        console.finished(leaderboard_rows(done.leaderboard), done.document, done.shown_path)
