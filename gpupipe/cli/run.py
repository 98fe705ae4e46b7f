"""Command ``gpupipe run CONFIG``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option, override_option

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.config import Config


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@override_option
@device_override_option
@click.option(
    "--cluster",
    metavar="local|ADDRESS|FILE",
    help="Run on Dask workers: started on this machine (local), or those of a scheduler (address or file).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The run directory to write. Default: a new one in the output folder of CONFIG (runs/).",
)
@click.option("--mode", type=int, help="Permissions of the files, instead of `output_mode` of CONFIG (600).")
@click.option("--resume", is_flag=True, help="Resume an interrupted run from its checkpoints.")
@click.option(
    "--nproc",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that train each neural network.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use N GPUs of this machine: --nproc N if all models are networks, else --cluster local with N workers.",
)
@click.option("--monitor", is_flag=True, help="Show charts of processor, memory and GPUs on the whole terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout: metrics and run directory.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    config: Path,
    overrides: tuple[str, ...],
    device: Device | None,
    cluster: str | None,
    output: Path | None,
    mode: int | None,
    resume: bool,
    nproc: int,
    gpus: int | None,
    monitor: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train, evaluate and export the models of CONFIG.

    Prints each stage as it runs and the leaderboard at the end. The run directory has the exported model, metrics,
    predictions, timeline and report.

    Ctrl-C stops the run at the next safe point; a second Ctrl-C ends it at once. Resume it with --resume.

    \b
    Exit codes:
      0  the run is complete
      6  the run is complete, and misses a limit of evaluate.fail_on
      2 to 5, 130, 143  an error, or a stopped run; see the documentation
    """
    if cluster is not None and nproc > 1:
        raise click.UsageError("--nproc cannot be combined with --cluster, whose workers share the training")
    if gpus is not None and (cluster is not None or nproc > 1 or device == "cpu"):
        raise click.UsageError("--gpus cannot be combined with --cluster, --nproc and --device cpu")
    if monitor:
        require_full_screen(quiet)
    from gpupipe.cli.interrupts import stopped_by_signals
    from gpupipe.config import load_config
    from gpupipe.config.cluster import override_of
    from gpupipe.errors import ConfigError
    from gpupipe.models.neural.ranks.driver import torchrun_driver
    from gpupipe.timeline.display.console import Console
    from gpupipe.timeline.safe_points import StopSignal

    extra = [] if device is None else [f"device={device}"]
    extra += [] if mode is None else [f"output_mode={mode}"]
    extra += [] if cluster is None else [override_of(cluster)]
    settings = load_config(config, [*overrides, *extra])
    if gpus is not None:
        more, nproc = shared_by_gpus(settings, gpus)
        settings = load_config(config, [*overrides, *extra, *more])
    if monitor and settings.monitor.period is None:
        fix = "add --set monitor.period=1s, or omit --monitor"
        raise ConfigError("--monitor needs hardware samples, which are switched off", where="monitor.period", fix=fix)
    stop_signal, shown = StopSignal(), Console(quiet=quiet, as_json=as_json, is_full_screen=monitor)
    with torchrun_driver() as is_driver, stopped_by_signals(stop_signal, shown.stopping), shown as console:
        if not is_driver:
            return
        from gpupipe.pipeline.run import run_pipeline
        from gpupipe.training.selection.leaderboard import leaderboard_rows

        done = run_pipeline(settings, output, [console], resume=resume, n_processes=nproc, stop_signal=stop_signal)
        console.finished(leaderboard_rows(done.candidates), done.document, done.shown_path)
        done.require_limits()


def shared_by_gpus(config: Config, n: int) -> tuple[list[str], int]:
    """Return the overrides that share a run by `n` GPUs, and the number of processes that train a network."""
    from gpupipe.models.neural.settings import NeuralSettings

    if n == 1 or all(isinstance(entry.params, NeuralSettings) for entry in config.models):
        return ["device=gpu"], n
    return ["device=gpu", "cluster.scheduler=local", f"cluster.workers={n}"], 1


def require_full_screen(quiet: bool) -> None:
    """Raise a UsageError if --monitor has no terminal to use."""
    if quiet:
        raise click.UsageError("--monitor cannot be combined with --quiet")
    if not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise click.UsageError("--monitor needs a terminal on stderr; without it, the stages are printed as lines")
