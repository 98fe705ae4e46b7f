"""Command ``gpupipe plan CONFIG``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import device_override_option, emit, json_options, no_code_option, override_option
from gpupipe.cli.tables import WARNING, make_table, print_table
from gpupipe.names import count_noun
from gpupipe.units import GIB, parse_size

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.plan.run_plan import RunPlan

PIPE_WIDTH = 140  # columns of a table without a terminal


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Parse a size such as ``16GiB`` to bytes."""
    if value is None:
        return None
    try:
        n_bytes = parse_size(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if n_bytes <= 0:
        raise click.BadParameter(f"expected a positive size, got {value!r}")
    return n_bytes


@click.command
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--assume-gpu",
    metavar="SIZE",
    callback=size,
    help="Plan for a GPU with this much memory, such as 16GiB; needs no GPU.",
)
@override_option
@device_override_option
@no_code_option
@json_options
def command(
    config: Path,
    assume_gpu: int | None,
    overrides: tuple[str, ...],
    device: Device | None,
    no_code: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Predict the stages of a run of CONFIG: device with the reason, rows, peak memory and number of parts.

    It reads file footers, file sizes and a sample of the rows, and runs the code that CONFIG names: SQL queries, and
    prepare hooks, kernels and estimators on the sample. No model is trained.

    \b
    Exit codes:
      0  the run fits into memory, or its rows fit onto the disk
      2  errors in the configuration
      3  the run does not fit
      4  `device: gpu`, and the GPU cannot run every step
      5  a table cannot be read, or contradicts the configuration
    """
    from gpupipe.config import load_config
    from gpupipe.config.locations import locate_errors
    from gpupipe.config.redacted_output import redact_output
    from gpupipe.plan.run_plan import make_plan
    from gpupipe.report.text import printable
    from gpupipe.training.preparation.run_inputs import code_line, refuse_code, run_inputs

    extra = [] if device is None else [f"device={device}"]
    settings = load_config(config, [*overrides, *extra])
    with redact_output(settings.origin.redactor), locate_errors(settings.origin):
        if no_code:
            refuse_code(settings)
        plan = make_plan(settings, assume_gpu)
    emit(plan.to_json(), as_json, output, lambda: _show(plan), run_inputs(settings))
    if not as_json and (line := code_line(settings)):
        click.echo(printable(settings.origin.redactor.hide(line)))
    if plan.error is not None:
        raise plan.error


def _show(plan: RunPlan) -> None:
    from gpupipe.limits.budget import format_amount
    from gpupipe.report.text import printable

    on_gpu = plan.device_limit is not None
    names = ("stage", "device", "rows", "host GiB", *(["device GiB"] if on_gpu else []), "parts", "")
    table = make_table(names, ("stage", "device"), folded=("",))
    last = ""
    for stage in plan.stages:
        reason, last = stage.reason if stage.reason != last else "", stage.reason
        notes = "; ".join(printable(text) for text in (reason, *stage.notes) if text)
        rows = "" if stage.rows is None else f"{stage.rows:,}"
        device = [_gib(stage.peak_device_bytes)] if on_gpu else []
        parts = str(stage.parts) if stage.parts > 1 else ""
        table.add_row(printable(stage.name), stage.device, rows, _gib(stage.peak_host_bytes), *device, parts, notes)
    about = "" if plan.is_exact else "about "
    peaks = f"peak {_gib(plan.host_bytes)} GiB of {_gib(plan.host_limit)} on the host"
    if on_gpu:
        peaks += f", {_gib(plan.device_bytes)} GiB of {_gib(plan.device_limit)} on the GPU"
    lines = [f"\n{about}{count_noun(plan.n_rows, 'row')}; {peaks}"]
    lines += [f"{WARNING}{printable(warning)}" for warning in plan.warnings]
    if plan.on_disk:
        disk = f"out of core: {_gib(plan.disk_bytes)} GiB of partitions on disk, one at a time in memory"
        lines.append(f"{disk}; {plan.on_disk}")
    if plan.limits:
        limits = ", ".join(f"{name} {format_amount(name, limit)}" for name, limit in plan.limits.items())
        lines.append(f"limits of the run: {limits}; their use is measured only when it runs")
    print_table(table, lines, PIPE_WIDTH)


def _gib(n_bytes: int | None) -> str:
    return "" if n_bytes is None else f"{n_bytes / GIB:.2f}"
