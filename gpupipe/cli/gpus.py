"""Command ``gpupipe gpus [CONFIG]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import emit, json_options, no_code_option, override_option
from gpupipe.cli.tables import make_table, print_table
from gpupipe.names import count_noun
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.io.output_conflicts import ProtectedInput
    from gpupipe.plan.gpu_choice.estimates import ConfigEstimates, GpuEstimate, RowRange
    from gpupipe.plan.gpu_choice.gpu_specs import GpuCatalog, GpuSpec
    from gpupipe.plan.gpu_choice.prices import HourPrices
    from gpupipe.plan.gpu_choice.stage_times import RunTime, TimeRange

NONE = "–"
CATALOG = (
    "gpu", "for", "year", "GB", "memory", "GB/s", "capability", "FP32", "FP64", "TF32", "FP16", "FP8", "FP4", "W",
    "PCIe", "cloud",
)  # fmt: skip


@click.command
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    help="YAML file of prices per hour: {h100-sxm: 2.5, cpu: 0.2, kwh: 0.3, currency: USD}.",
)
@click.option(
    "--gpu",
    "keys",
    metavar="NAME",
    multiple=True,
    help="Show this GPU only, with CONFIG its stages too. Repeatable.",
)
@override_option
@no_code_option
@json_options
def command(
    config: Path | None,
    prices: Path | None,
    keys: tuple[str, ...],
    overrides: tuple[str, ...],
    no_code: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """List known GPUs, or what CONFIG needs and takes on each: memory, time, energy, cost and break-even.

    Times on GPUs are ranges, from the work of each stage and the share of a GPU's peaks that is published or assumed
    for it. Times on this CPU follow from measured rates and the speed of one of its cores. Like `plan`, it reads a
    sample of the rows and trains no model.

    \b
    Exit codes:
      0  the table was printed, whether the run fits or not
      2  errors in the configuration or the prices
      5  a table cannot be read, or contradicts the configuration
    """
    from gpupipe.errors import ConfigError
    from gpupipe.plan.gpu_choice.gpu_specs import load_gpus
    from gpupipe.plan.gpu_choice.prices import HourPrices, read_prices

    catalog = load_gpus()
    gpus = catalog.choose(keys, "--gpu")
    if config is None:
        if overrides or prices is not None:
            option = "--prices" if prices is not None else "--set"
            raise ConfigError(f"{option} needs a configuration", fix="write gpupipe gpus CONFIG")
        document = {"date": catalog.date, "gpus": [gpu.to_json() for gpu in gpus]}
        emit(document, as_json, output, lambda: _show_catalog(catalog, gpus))
        return
    costs = HourPrices() if prices is None else read_prices(prices, [gpu.key for gpu in catalog.gpus])
    found, inputs = _estimate(config, overrides, no_code, gpus, costs)
    document = {"date": catalog.date, **found.to_json()}
    emit(document, as_json, output, lambda: _show_estimates(found, bool(keys)), inputs)


def _estimate(
    config: Path, overrides: Sequence[str], no_code: bool, gpus: Sequence[GpuSpec], prices: HourPrices
) -> tuple[ConfigEstimates, list[ProtectedInput]]:
    from gpupipe.config import load_config
    from gpupipe.config.locations import locate_errors
    from gpupipe.config.redacted_output import redact_output
    from gpupipe.plan.gpu_choice.estimates import estimate_gpus
    from gpupipe.training.preparation.run_inputs import refuse_code, run_inputs

    settings = load_config(config, overrides)
    with redact_output(settings.origin.redactor), locate_errors(settings.origin):
        if no_code:
            refuse_code(settings)
        return estimate_gpus(settings, gpus, prices), run_inputs(settings)


def _show_catalog(catalog: GpuCatalog, gpus: Sequence[GpuSpec]) -> None:
    from gpupipe.backends.probe import probe_gpus

    here = [catalog.named(gpu.name) for gpu in probe_gpus() if gpu.usable]
    table = make_table(CATALOG, left=("gpu", "for", "memory", "cloud"))
    for gpu in gpus:
        capability = ".".join(map(str, gpu.capability))
        figures = (gpu.fp32, gpu.fp64, gpu.tf32, gpu.fp16, gpu.fp8, gpu.fp4, gpu.watts, gpu.pcie)
        table.add_row(
            gpu.key + " *" * (gpu in here),
            gpu.segment,
            str(gpu.year),
            _figure(gpu.memory_gb),
            gpu.memory_type,
            _figure(gpu.bandwidth_gbs),
            capability,
            *map(_figure, figures),
            gpu.cloud,
        )
    lines = [
        f"\nfigures of {catalog.date}; TFLOPS, those of TF32 to FP4 by tensor cores without sparsity; {NONE} where no "
        "source was found",
        "gpupipe needs capability 7.5; sources: gpupipe gpus --json",
        "XGBoost and networks need gpupipe[cuda13-lite] or [cuda12-lite] alone, without RAPIDS",
    ]
    print_table(table, lines + ["* in this machine"] * any(here))


def _show_estimates(found: ConfigEstimates, has_stages: bool) -> None:
    has_costs = found.cpu_cost is not None or any(gpu.cost is not None for gpu in found.gpus)
    names = ["", "GiB", "needs", "fits", "seconds", "faster from rows", "Wh at most"]
    names += ["cost", "cheaper from rows"] * has_costs
    table = make_table(names, left=("", "fits"))
    costs = [_range(found.cpu_cost), ""] * has_costs
    plan, name = found.cpu_plan, f"this CPU, {count_noun(found.n_threads, 'thread')}"
    memory = [f"{n_bytes / GIB:.1f}" for n_bytes in (plan.host_limit, plan.host_bytes)]
    fits = "no" if plan.error else "on disk" if plan.on_disk else "yes"
    table.add_row(name, *memory, fits, _range(found.cpu.total), "", "", *costs)
    for gpu in found.gpus:
        cells = [gpu.gpu.key, f"{gpu.gpu.usable_bytes / GIB:.1f}", f"{(gpu.plan.device_bytes or 0) / GIB:.1f}"]
        cells += [_fits(gpu), _estimated(None if gpu.time is None else gpu.time.total), _rows(gpu.faster)]
        cells += [_figure(gpu.watt_hours)]
        cells += [_estimated(gpu.cost), _rows(gpu.cheaper)] * has_costs
        table.add_row(*cells)
    print_table(table, _notes(found))
    for gpu in found.gpus if has_stages else ():
        if gpu.time is not None:
            _show_stages(found.cpu, gpu, gpu.time)


def _notes(found: ConfigEstimates) -> list[str]:
    about = "" if found.is_exact else "about "
    unknown = dict.fromkeys(found.cpu.unknown)
    for gpu in found.gpus:
        unknown |= dict.fromkeys(() if gpu.time is None else gpu.time.unknown)
    limited = any(stage.is_limit for stage in found.cpu.stages)
    return [
        f"\n{about}{count_noun(found.n_rows, 'row')}, with imports; not predicted: {', '.join(unknown) or 'nothing'}",
        "with RAPIDS; without it, files are read on the CPU, and models of cuML train there",
        "~ estimated, not measured: from shares of a GPU's peaks that are published for other programs, or assumed",
        f"this CPU: measured rates; {format_bandwidth(found.core.bandwidth)} copied and "
        f"{found.core.flops / 1e9:,.0f} GFLOPS float32 by one core now",
        "faster from rows: where the ranges first touch, to where they no longer overlap",
        *[f"no total, since these may be long: {', '.join(found.cpu.missing)}"] * bool(found.cpu.missing),
        *["times are limits: a model that stops early takes less"] * limited,
    ]


def format_bandwidth(bytes_per_second: float) -> str:
    """Return a bandwidth in GB/s."""
    return f"{bytes_per_second / 1e9:,.1f} GB/s"


def _show_stages(cpu: RunTime, estimate: GpuEstimate, time: RunTime) -> None:
    """Print the seconds of each stage on this CPU and on a GPU, with what its rate leans on."""
    click.echo(f"\n{estimate.gpu.name}; {estimate.gpu.source}\n")
    table = make_table(["stage", "this CPU", "with the GPU", "on", "rate"], left=("stage", "on", "rate"))
    table.add_row("start", _range(cpu.start), _estimated(time.start), "", "imports measured without a GPU")
    ours = {stage.name: stage for stage in cpu.steps}
    for stage in time.steps:
        here = ours.get(stage.name)
        seconds = _range(stage.seconds) if stage.device == "cpu" else _estimated(stage.seconds)
        table.add_row(stage.name, _range(None if here is None else here.seconds), seconds, stage.device, stage.basis)
    print_table(table)


def _estimated(time: TimeRange | None) -> str:
    """Return both ends after a tilde."""
    return NONE if time is None else f"~ {_range(time)}"


def _fits(estimate: GpuEstimate) -> str:
    if estimate.obstacle:
        return f"no: {estimate.obstacle}" if estimate.obstacle != "does not fit" else "no"
    if estimate.gpu.lacking:
        return "yes; bandwidth or TFLOPS unknown"
    return f"in {estimate.parts} parts" if estimate.parts > 1 else "yes"


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _range(time: TimeRange | None) -> str:
    """Return both ends in two digits, or one if they are equal."""
    if time is None:
        return NONE
    low, high = (f"{value:.2g}" if abs(value) < 10 else f"{value:,.0f}" for value in (time.low, time.high))
    return low if low == high else f"{low} to {high}"


def _rows(rows: RowRange | None) -> str:
    if rows is None or rows.possible is None:
        return NONE
    possible, certain = (short_count(n) for n in (rows.possible, rows.certain))
    return possible if possible == certain else f"{possible} to {certain}"


def short_count(n: int | None) -> str:
    """Return a number of rows as ``500k`` or ``2M``; a dash for None."""
    if n is None:
        return NONE
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n // unit}{name}"
    return str(n)
