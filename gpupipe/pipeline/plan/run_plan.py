"""The plan of a run: for each stage its device and the reason, its rows, its memory and its parts.

Nothing is read but footers, sizes and some rows; no library of a GPU is imported. The memory is that of
`gpupipe.pipeline.plan.costs`: what a stage holds is known from shapes, what its libraries take beside was measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpupipe.backends import device_report, machine
from gpupipe.config import Config
from gpupipe.errors import DeviceError, LimitError
from gpupipe.io.input_files import InputFiles
from gpupipe.pipeline.limits.energy import require_meters
from gpupipe.pipeline.plan.out_of_core import OutOfCorePlanner
from gpupipe.pipeline.plan.planner import Ledger, PlannedStage, Planner
from gpupipe.pipeline.plan.preview import Preview, preview
from gpupipe.units import GIB

SHARE = 0.9  # of what there is: a plan is right to some per cent


@dataclass(frozen=True)
class RunPlan:
    """A run that has not run.

    Attributes
    ----------
    stages : tuple of PlannedStage
        In the order of the run; of several folds one, with what the others hold.
    n_rows : int
        Rows with a target that pass the filter.
    is_exact : bool
        Whether `n_rows` is known from footers and settings, not from sizes.
    host_limit : int
        Bytes that this process may use.
    device_limit : int, optional
        Bytes of the GPU; None on the CPU.
    error : DeviceError or LimitError, optional
        Why the run would fail, with what to change.
    on_disk : str
        Why the rows would be on the disk, one partition at a time in memory; ``""`` where they would be in memory.
    disk_bytes : int
        What they would take there.
    limits : dict of str to float
        Those that only the run itself can reach: seconds, hours of GPUs, kWh, money.
    warnings : tuple of str
        Columns that would not be among the features, and settings without effect, as far as some rows tell.
    """

    stages: tuple[PlannedStage, ...]
    n_rows: int
    is_exact: bool
    host_limit: int
    device_limit: int | None
    error: DeviceError | LimitError | None = None
    on_disk: str = ""
    disk_bytes: int = 0
    limits: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fits = "does not fit" if isinstance(self.error, LimitError) else "fits"
        n_stages, peak = len(self.stages), self.host_bytes / GIB
        return f"Plan({n_stages} stages, {self.n_rows:,} rows, {peak:.2f} GiB of the host at most: {fits})"

    @property
    def host_bytes(self) -> int:
        """The predicted peak on the host."""
        return max(stage.peak_host_bytes for stage in self.stages)

    @property
    def device_bytes(self) -> int | None:
        """The predicted peak on the device; None on the CPU."""
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
    """Return what a run of `config` would do and need.

    Parameters
    ----------
    config : Config
    assume_gpu : int, optional
        Plan for a GPU with so many bytes, whatever this machine has.
    files : InputFiles, optional
        The files of all tables, if they were listed already.

    Raises
    ------
    DeviceError
        If a GPU is demanded, and neither there nor assumed.
    ConfigError
        If the energy has a limit or a price, and this machine cannot measure it.
    GpupipeError
        As the run itself would, as far as footers and some rows tell.
    """
    limit, reason = _device(config, assume_gpu)
    if assume_gpu is None and config.cluster.scheduler is None:
        require_meters(config.limits, n_gpus=int(limit is not None))
    seen = preview(config, "cpu" if limit is None else "gpu", files)
    memory = machine.memory(limit=config.limits.memory)
    device = None if limit is None else Ledger(limit)
    planner = Planner(config, seen, reason, Ledger(memory.total), device, memory.available)
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
        tuple(stages), seen.n_rows, seen.is_exact, memory.total, limit, error, hide(on_disk), planner.disk_bytes,
        config.limits.of_a_run, tuple(map(hide, seen.warnings)),
    )  # fmt: skip


def _beyond_memory(planner: Planner) -> str:
    """Return that the host's memory does not suffice, in words, or ``""``."""
    peak, limit = max(stage.peak_host_bytes for stage in planner.stages), planner.host.limit
    if peak <= SHARE * limit:
        return ""
    return f"in memory the run would take {peak / GIB:.2f} GiB of {limit / GIB:.2f}"


def _device(config: Config, assumed: int | None) -> tuple[int | None, str]:
    """Return the bytes of the GPU that the run would use, None on the CPU, and why it would be there."""
    most = config.device_options.limit
    if config.device == "cpu":
        return None, "asked for"
    if assumed is not None:
        return min(assumed, most or assumed), f"a GPU of {assumed / GIB:.2f} GiB is assumed"
    report = device_report()
    if not report.gpu_obstacle:
        return min(report.gpu.free_bytes, most or report.gpu.free_bytes), report.gpu.reason
    if config.device == "gpu":
        fix = "run with --device auto or --device cpu, or plan for another machine with --assume-gpu 16GiB"
        raise DeviceError(
            f"the GPU was asked for and cannot be used: {report.gpu_obstacle}", where="device: gpu", fix=fix
        )
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
        what = "the run does not fit into memory, even with its rows on the disk"
        fix = (
            f"allow it {1.1 * peak / GIB:.2f} GiB (limits.memory, or the container's), or leave out the model "
            "named above: xgboost, logistic_regression and ridge learn from partitions"
        )
    else:
        worst = max(max(s.peak_host_bytes / planner.host.limit, _share(s, planner.device)) for s in planner.stages)
        what = "the run does not fit into memory"
        fix = (
            f"about {int(seen.n_rows / worst):,} of {seen.n_rows:,} rows would fit (source.where); or drop columns, "
            "target_encode long categories instead of one-hot, leave out the model named above, or use more memory"
        )
    return LimitError(what, where="\n         ".join(planner.shortages[:5]), fix=fix)


def _share(stage: PlannedStage, device: Ledger | None) -> float:
    return 0.0 if device is None or stage.peak_device_bytes is None else stage.peak_device_bytes / device.limit
