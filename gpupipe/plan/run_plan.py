"""Plan of a run: device with reason, rows, memory and parts of each stage.

It reads file footers, sizes and a sample of the rows, and imports no GPU library. The memory of tables and matrices
follows from their shapes, that of libraries from the measured constants of `gpupipe.plan.costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpupipe.backends import device_report, machine
from gpupipe.backends.probe import lacks_nothing, lacks_package
from gpupipe.config import Config
from gpupipe.errors import DeviceError, LimitError
from gpupipe.io.input_files import InputFiles
from gpupipe.limits.energy import require_meters
from gpupipe.names import count_noun
from gpupipe.plan.out_of_core import OutOfCorePlanner
from gpupipe.plan.planner import Ledger, PlannedStage, Planner
from gpupipe.plan.preview import Preview, preview
from gpupipe.units import GIB

SHARE = 0.9  # usable fraction of the memory: plans are accurate to a few per cent


@dataclass(frozen=True)
class RunPlan:
    """Predicted stages and memory of a run."""

    # In the order of the run. Several folds are one set of stages, with the memory that the others use.
    stages: tuple[PlannedStage, ...]
    n_rows: int  # rows that have a target and pass the filter
    is_exact: bool  # True if `n_rows` is known from footers and settings, False if it is estimated from file sizes
    host_limit: int  # bytes that this process may use
    device_limit: int | None  # bytes of the GPU; None on the CPU
    # The reason why the run would fail, with what to change; None if it would not
    error: DeviceError | LimitError | None = None
    # The reason for an out-of-core run, with its rows in partitions on disk; ``""`` for a run in memory
    on_disk: str = ""
    disk_bytes: int = 0  # bytes of the partitions on disk
    # Limits whose use is known only when it runs: seconds, GPU hours, kWh, cost
    limits: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # columns without features and settings without effect, according to the sample

    def __repr__(self) -> str:
        fits = "does not fit" if isinstance(self.error, LimitError) else "fits"
        n_stages, peak = len(self.stages), self.host_bytes / GIB
        return f"RunPlan({n_stages} stages, {count_noun(self.n_rows, 'row')}, host peak {peak:.2f} GiB: {fits})"

    @property
    def host_bytes(self) -> int:
        """Predicted peak memory of the host, in bytes."""
        return max(stage.peak_host_bytes for stage in self.stages)

    @property
    def device_bytes(self) -> int | None:
        """Predicted peak memory of the device, in bytes; None on the CPU."""
        return max(
            (stage.peak_device_bytes for stage in self.stages if stage.peak_device_bytes is not None), default=None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "fits": not isinstance(self.error, LimitError),
            "on_disk": self.on_disk,
            "disk_bytes": self.disk_bytes,
            "error": None if self.error is None else str(self.error),
            "rows": self.n_rows,
            "rows_are_exact": self.is_exact,
            "peak_host_bytes": self.host_bytes,
            "peak_device_bytes": self.device_bytes,
            "host_limit": self.host_limit,
            "device_limit": self.device_limit,
            "limits": self.limits,
            "warnings": list(self.warnings),
            "stages": [asdict(stage) for stage in self.stages],
        }


def make_plan(config: Config, assume_gpu: int | None = None, files: InputFiles | None = None) -> RunPlan:
    """Return the plan of a run of `config`.

    - `assume_gpu`: plan for a GPU with this many bytes, regardless of this machine
    - `files`: the files of all tables, if they were listed already

    Raises
    ------
    DeviceError
        If ``device: gpu`` is set, and a GPU is neither usable nor assumed.
    ConfigError
        If energy has a limit or a price, and this machine cannot measure it.
    GpupipeError
        The errors of the run that occur on the sample.
    """
    limit, reason = _device(config, assume_gpu)
    if assume_gpu is None and config.cluster.scheduler is None:
        require_meters(config.limits, n_gpus=int(limit is not None))
    lacks = lacks_package if assume_gpu is None else lacks_nothing
    return plan_sample(config, preview(config, "cpu" if limit is None else "gpu", files, lacks), limit, reason, lacks)


def plan_sample(
    config: Config, seen: Preview, limit: int | None, reason: str, lacks: Callable[[str], bool] = lacks_nothing
) -> RunPlan:
    """Return the plan of a run of `config` whose tables were sampled.

    - `limit`: bytes of the GPU; None for a run on the CPU
    - `reason`: the reason for the device
    - `lacks`: returns whether a library is missing where the run would be
    """
    memory = machine.memory(limit=config.limits.memory)
    device = None if limit is None else Ledger(limit)
    planner = Planner(config, seen, reason, Ledger(memory.total), device, memory.available, lacks=lacks)
    planner.walk()
    on_disk = "" if limit is not None or config.cluster.scheduler else _beyond_memory(planner)
    if on_disk:
        planner = OutOfCorePlanner(config, seen, reason, Ledger(memory.total), None, memory.available)
        planner.walk()
    error, hide = _error(config, planner, seen), config.origin.redactor.hide
    if error is not None:
        error.reword(hide)
    stages = [
        replace(stage, reason=hide(stage.reason), notes=tuple(map(hide, stage.notes))) for stage in planner.stages
    ]
    return RunPlan(
        tuple(stages),
        seen.n_rows,
        seen.is_exact,
        memory.total,
        limit,
        error,
        hide(on_disk),
        planner.disk_bytes,
        config.limits.of_a_run,
        tuple(map(hide, seen.warnings)),
    )


def _beyond_memory(planner: Planner) -> str:
    """Return a message if the run does not fit into the memory of the host, or ``""``."""
    peak, limit = max(stage.peak_host_bytes for stage in planner.stages), planner.host.limit
    if peak <= SHARE * limit:
        return ""
    return f"in memory the run would need {peak / GIB:.2f} of {limit / GIB:.2f} GiB"


def _device(config: Config, assumed: int | None) -> tuple[int | None, str]:
    """Return the bytes of the GPU that the run would use (None on the CPU), and the reason for the device."""
    most = config.device_options.limit
    if config.device == "cpu":
        return None, "asked for"
    if assumed is not None:
        return min(assumed, most or assumed), f"assumed GPU with {assumed / GIB:.2f} GiB"
    report = device_report()
    if not report.gpu_obstacle:
        return min(report.gpu.free_bytes, most or report.gpu.free_bytes), report.gpu.reason
    if config.device == "gpu":
        fix = "run with --device auto or --device cpu, or plan for another machine with --assume-gpu 16GiB"
        raise DeviceError(f"the GPU cannot be used: {report.gpu_obstacle}", where="device: gpu", fix=fix)
    return None, report.gpu_obstacle


def _error(config: Config, planner: Planner, seen: Preview) -> DeviceError | LimitError | None:
    if planner.refusals and config.device_options.fallback == "forbid":
        stage, refusal = planner.refusals[0]
        return DeviceError(
            f"{refusal.what}, and fallback to the CPU is forbidden",
            where=stage,
            fix=f"{refusal.fix}, or set fallback: allow",
        )
    if not planner.shortages:
        return None
    if planner.on_disk:
        peak = max(stage.peak_host_bytes for stage in planner.stages)
        what = "the run does not fit into memory, even with its rows on disk"
        fix = (
            f"allow {1.1 * peak / GIB:.2f} GiB (limits.memory, or the limit of the container), or replace the model "
            "named above: xgboost and linear models can train on partitions"
        )
    else:
        worst = max(max(s.peak_host_bytes / planner.host.limit, _share(s, planner.device)) for s in planner.stages)
        what = "the run does not fit into memory"
        fix = (
            f"use about {int(seen.n_rows / worst):,} of {seen.n_rows:,} rows (source.where), drop columns, "
            "target_encode categories with many levels, remove the model named above, or use more memory"
        )
    return LimitError(what, where="\n         ".join(planner.shortages[:5]), fix=fix)


def _share(stage: PlannedStage, device: Ledger | None) -> float:
    return 0.0 if device is None or stage.peak_device_bytes is None else stage.peak_device_bytes / device.limit
