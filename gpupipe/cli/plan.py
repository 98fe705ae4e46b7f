"""``gpupipe plan CONFIG``: what a run would do and need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option
from gpupipe.units import GIB, parse_size

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.pipeline.plan.run_plan import RunPlan

PIPE_WIDTH = 140  # columns of a table where there is no terminal to ask


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Return ``16GiB`` in bytes."""
    if value is None:
        return None
    try:
        n_bytes = parse_size(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if n_bytes <= 0:
        raise click.BadParameter(f"{value!r} is no memory")
    return n_bytes


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--assume-gpu", metavar="SIZE", callback=size, help="Plan for a GPU with so much memory, as in 16GiB.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field: --set seed=8.")
@device_override_option
@click.option("--no-code", is_flag=True, help="Refuse a configuration that names Python code, instead of running it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    config: Path,
    assume_gpu: int | None,
    overrides: tuple[str, ...],
    device: Device | None,
    no_code: bool,
    as_json: bool,
) -> None:
    """Say what a run of CONFIG would do and need, stage by stage: device and reason, rows, memory, parts.

    Footers, sizes and some rows are read, and the Python code that CONFIG names is run on these rows: prepare hooks,
    kernels, estimators. Exit code 3: it would not fit into memory.
    """
    import json

    from gpupipe.config import load_config
    from gpupipe.config.locations import locate_errors
    from gpupipe.config.redacted_output import redact_output
    from gpupipe.pipeline.plan.run_plan import make_plan
    from gpupipe.pipeline.run_inputs import code_line, refuse_code
    from gpupipe.report.text import printable

    extra = [] if device is None else [f"device={device}"]
    settings = load_config(config, [*overrides, *extra])
    with redact_output(settings.origin.redactor), locate_errors(settings.origin):
        if no_code:
            refuse_code(settings)
        plan = make_plan(settings, assume_gpu)
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
    else:
        _show(plan)
        if line := code_line(settings):
            click.echo(printable(settings.origin.redactor.hide(line)))
    if plan.error is not None:
        raise plan.error


def _show(plan: RunPlan) -> None:
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from gpupipe.pipeline.limits.budget import format_amount
    from gpupipe.report.text import printable

    on_gpu = plan.device_limit is not None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("stage", "device"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "host GiB", *(["device GiB"] if on_gpu else []), "parts"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    said = ""
    for stage in plan.stages:
        reason, said = stage.reason if stage.reason != said else "", stage.reason
        notes = "; ".join(printable(text) for text in (reason, *stage.notes) if text)
        rows = "" if stage.rows is None else f"{stage.rows:,}"
        device = [_gib(stage.peak_device_bytes)] if on_gpu else []
        parts = str(stage.parts) if stage.parts > 1 else ""
        table.add_row(printable(stage.name), stage.device, rows, _gib(stage.peak_host_bytes), *device, parts, notes)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False)
    console.print(table)
    about = "" if plan.is_exact else "about "
    peaks = f"peak {_gib(plan.host_bytes)} GiB of {_gib(plan.host_limit)} on the host"
    if on_gpu:
        peaks += f", {_gib(plan.device_bytes)} GiB of {_gib(plan.device_limit)} on the GPU"
    console.print(f"\n{about}{plan.n_rows:,} rows; {peaks}")
    for warning in plan.warnings:
        console.print(f"warning: {printable(warning)}", style="yellow", soft_wrap=True)
    if plan.on_disk:
        disk = f"{_gib(plan.disk_bytes)} GiB of partitions on the disk, one at a time in memory"
        console.print(f"{disk}: {plan.on_disk}")
    if plan.limits:
        limits = ", ".join(f"{name} {format_amount(name, limit)}" for name, limit in plan.limits.items())
        console.print(f"the run stops where it reaches: {limits}; how much it takes is known when it runs")


def _gib(n_bytes: int | None) -> str:
    return "" if n_bytes is None else f"{n_bytes / GIB:.2f}"
