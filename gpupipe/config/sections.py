"""The whole configuration; the classes of most sections belong to the packages that they configure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.backends import Device, DeviceOptions
from gpupipe.config.cluster import ClusterSettings
from gpupipe.config.document import Node
from gpupipe.config.event_ops import entity_errors, gap_errors, keyed_ops
from gpupipe.config.features import OpItem, default_features
from gpupipe.config.limits import Limits
from gpupipe.config.models import ModelEntry, refuse_shared_labels, weight_errors
from gpupipe.config.redaction import Redactor
from gpupipe.config.registered_parts import combine_errors
from gpupipe.config.trackers import TrackSettings
from gpupipe.errors import ConfigError
from gpupipe.features.ops.items_op import list_columns
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.metrics.conformal import interval_ends
from gpupipe.metrics.evaluation import metric_names
from gpupipe.metrics.settings import Evaluate
from gpupipe.models import MODELS
from gpupipe.models.best import Best
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.names import count_noun
from gpupipe.report.settings import Report
from gpupipe.rules import ColumnRules
from gpupipe.settings import Seconds, Settings, Size
from gpupipe.splits import Split
from gpupipe.units import FileMode
from gpupipe_kernels.engines import EngineSetting

if TYPE_CHECKING:
    from gpupipe.tasks import Task


class Monitor(Settings):
    """Samples of processor, memory, disk and GPUs, in timeline.json, the report and the console."""

    period: Annotated[Seconds, Field(ge=0.1)] | None = Field(
        default=1.0,
        description="Time between two samples: seconds, at least 0.1, or text such as `5s`. It doubles whenever there "
        "are 512 of them. Null: no samples.",
    )


class GpuSettings(Settings):
    """Allocation of GPU memory, shared by CuPy, cuDF, cuML and, with ``async``, XGBoost."""

    allocator: Literal["async", "pool", "managed", "cuda"] = Field(
        default="async",
        description="Memory allocator. `async`: the CUDA driver's default pool, shared with XGBoost. `pool`: an RMM "
        "pool. `managed`: a pool of managed memory, which the driver can move to the host. `cuda`: no pool. All but "
        "`async` need RMM.",
    )
    initial_pool: Size | None = Field(
        default=None,
        description="Initial size of the pool: bytes, or text such as `8GiB`. Null: the default of the allocator.",
    )
    limit: Size | None = Field(
        default=None,
        description="Largest total of GPU memory in use: bytes, or text such as `20GiB`. Null: all memory of the GPU.",
    )
    spill: bool = Field(
        default=False,
        description="Let cuDF, which must be installed, move unused buffers to host memory when GPU memory is short.",
    )

    @field_validator("limit")
    @classmethod
    def _is_no_less_than_the_pool_begins_with(cls, limit: int | None, info: ValidationInfo) -> int | None:
        initial = info.data.get("initial_pool")
        if limit is not None and initial is not None and limit < initial:
            raise ValueError(f"expected at least initial_pool, {initial:,} bytes; got {limit:,}")
        return limit


@dataclass(frozen=True)
class ConfigOrigin:
    """Origin of a configuration: its file, document and secrets. Ignored when configurations are compared."""

    path: Path | None = field(default=None, compare=False)
    document: Node | None = field(default=None, compare=False, repr=False)  # each value as written, with its location
    redactor: Redactor = field(default_factory=Redactor, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """The folder of the file, or the working directory."""
        return self.path.parent if self.path else Path()


class Config(Settings):
    """Validated configuration of a run: source, features, models, split, evaluation, device and output.

    `gpupipe.load_config` reads one from a file, and `gpupipe.Pipeline` builds one from arguments. Both accept the short
    forms of ops and models and report all errors at once. A `Config` is immutable; pass it to ``gpupipe.Pipeline`` to
    run it.

    Examples
    --------
    >>> import gpupipe as gp
    >>> settings = {"source": {"generate": "churn", "rows": 1000, "target": "Churn"}, "models": ["xgboost"]}
    >>> config = gp.Pipeline.from_dict(settings).config
    >>> config
    Config('pipeline': churn, 1 op, xgboost)
    >>> config.split.test_size, config.output
    (0.2, 'runs/')
    """

    name: str = Field(
        default="pipeline",
        min_length=1,
        description="First part of the run directory's name. Default: the name of the configuration file.",
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="Random seed of splits, folds and models.")
    device: Device = Field(
        default="auto",
        description="Device to run on. `auto`: the GPU if it can be used, otherwise the CPU; the timeline reports the "
        "device of each stage with the reason. `cpu`: the CPU. `gpu`: the GPU, or an error (exit code 4).",
    )
    fallback: Literal["forbid", "allow"] | None = Field(
        default=None,
        description="Steps that the GPU cannot run. `forbid`: an error (exit code 4). `allow`: fall back to the CPU, "
        "with a warning. Null: `forbid` with `device: gpu`, `allow` with `device: auto`.",
    )
    engine: EngineSetting = Field(
        default="auto",
        description="Engine for statistics, history features and texts on the CPU. `numpy`: array operations. "
        "`numba`: compiled loops; the first run waits seconds for the compiler. `auto`: numba where it saves more time "
        "than compiling takes.",
    )
    gpu: GpuSettings = Field(default_factory=GpuSettings, description="Allocation of GPU memory.")
    cluster: ClusterSettings = Field(
        default_factory=ClusterSettings, description="Dask workers that share the run; without a scheduler, none."
    )
    source: Source = Field(description="The table to learn from: files, reader options, target and identifiers.")
    tables: dict[str, JoinedTable] = Field(
        default_factory=dict, description="Further tables by name, each with its join keys and cardinality."
    )
    data: dict[str, ColumnRules] = Field(
        default_factory=dict,
        description="Rules for columns by name, glob or `@kind`, enforced in training and when the model predicts.",
    )
    split: Split = Field(default_factory=Split, description="Division of the rows into training and test rows.")
    features: tuple[OpItem, ...] = Field(
        default_factory=default_features,
        description="Feature ops, each `{name: settings}`, in the order of their output columns. Default: `auto`, "
        "which encodes each column by its kind.",
    )
    models: Annotated[tuple[ModelEntry, ...], AfterValidator(refuse_shared_labels)] = Field(
        default=(),
        description="Candidates of the leaderboard; the best one is exported. Default: two models that suit the task.",
    )
    evaluate: Evaluate = Field(
        default_factory=Evaluate, description="Metrics, decision threshold, calibration and importances."
    )
    limits: Limits = Field(default_factory=Limits, description="Limits on memory, time, energy and cost of the run.")
    monitor: Monitor = Field(
        default_factory=Monitor, description="Sampling of processor, memory, disk and GPUs during the run."
    )
    report: Report = Field(default_factory=Report, description="Contents of report.html.")
    track: TrackSettings = Field(
        default_factory=TrackSettings, description="Trackers that the run is logged to: MLflow, Weights & Biases."
    )
    output: str = Field(default="runs/", min_length=1, description="Folder in which run directories are created.")
    output_mode: FileMode = Field(
        default=600,
        description="Permissions of the files of a run, whatever the umask; `640`: the group can read them.",
    )

    _origin: ConfigOrigin = PrivateAttr(default_factory=ConfigOrigin)

    def __repr__(self) -> str:
        models = ", ".join(entry.label for entry in self.models[:4]) + (", …" if len(self.models) > 4 else "")
        source = self.origin.redactor.hide(self.source.label)[:80]
        return f"Config({self.name!r}: {source}, {count_noun(len(self.features), 'op')}, {models or 'models by task'})"

    __str__ = __repr__

    @model_validator(mode="after")
    def _event_tables_are_used_as_such(self) -> Config:
        ops, errors = keyed_ops(self.features, self.source, self.tables)
        errors += entity_errors(self.source, self.tables)
        if errors:
            raise combine_errors("Config", errors)
        return self if ops == self.features else self.model_copy(update={"features": ops})

    @model_validator(mode="after")
    def _delays_of_the_target_agree(self) -> Config:
        if errors := gap_errors(self):
            raise combine_errors("Config", errors)
        return self

    @model_validator(mode="after")
    def _models_take_weights(self) -> Config:
        if self.source.weight is not None and (errors := weight_errors(self.models)):
            raise combine_errors("Config", errors)
        return self

    @model_validator(mode="after")
    def _suits_its_task(self) -> Config:
        if errors := task_errors(self):
            raise combine_errors("Config", errors)
        return self

    @model_validator(mode="after")
    def _reads_keys_as_keys(self) -> Config:
        """Tell the readers of all tables which columns are keys, and which contain lists."""
        keys, lists = self._keys, list_columns(self.features)
        self.__dict__["source"] = self.source.read_as(keys, lists=lists)  # the model is frozen, and not complete yet
        self.__dict__["tables"] = {name: table.read_as(keys) for name, table in self.tables.items()}
        return self

    @property
    def _keys(self) -> tuple[str, ...]:
        """The columns of the main table that identify an entity, or a row of another table."""
        names = [table.on.left for table in self.tables.values()]
        names += [op.key_columns() for op in self.features if isinstance(op, KeyedOp)]
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    @model_validator(mode="after")
    def _does_not_read_identifiers(self) -> Config:
        """Drop the columns of ``source.id``, except keys and columns that the split needs."""
        keys, split = {*self._keys}, self.split
        read = keys | {split.group, split.time, split.column.name if split.column else None}
        gone = tuple(name for name in self.source.id if name not in read and name not in self.source.drop)
        if gone:
            self.__dict__["source"] = self.source.model_copy(update={"drop": (*self.source.drop, *gone)})
        return self

    @property
    def device_options(self) -> DeviceOptions:
        """The options of the backend: fallback, GPU memory, host memory limit and engine."""
        fallback, gpu = self.fallback or ("forbid" if self.device == "gpu" else "allow"), self.gpu
        pool = gpu.allocator, gpu.initial_pool, gpu.limit, gpu.spill
        return DeviceOptions(fallback, *pool, self.limits.memory, self.engine)

    @property
    def has_frames(self) -> bool:
        """True if the source or another table is a frame in the memory of this process."""
        frames = [table.frame for table in (self.source, *self.tables.values())]
        return any(frame is not None and not frame.is_partitioned for frame in frames)

    @property
    def origin(self) -> ConfigOrigin:
        """The origin of the configuration."""
        return self._origin


def task_errors(config: Config) -> list[InitErrorDetails]:
    """Return an error for each model, metric or interval that the task of the source does not have.

    With several targets, also for settings that are for a single one; and for an ensemble without the folds it needs.
    """
    task = config.source.task
    found = [] if task is None else [*_models(config, task), *_metrics(config, task), *_intervals(config, task)]
    found += _ranking(config) if task == "ranking" else []
    found += _out_of_fold(config)
    return [*found, *(_several(config) if len(config.source.targets) > 1 else _single(config))]


def _out_of_fold(config: Config) -> Iterator[InitErrorDetails]:
    """Yield the first reason why the folds of an ensemble cannot be those of ``split.cv``."""
    split = config.split
    for i, entry in enumerate(config.models):
        if not isinstance(entry.params, Best) or not entry.params.out_of_fold:
            continue
        problems = {
            "needs split.cv: set it to the number of folds, such as 8": split.cv is None,
            "needs folds of all rows: remove split.time": split.time is not None,
            "needs one set of folds: remove split.repeats": split.repeats > 1,
            "has the folds of split.cv: remove folds": entry.params.folds is not None,
            "evaluates one candidate: remove the others": len(config.models) > 1,
        }
        yield from [_error(f"out_of_fold {what}", "models", i) for what, is_wrong in problems.items() if is_wrong][:1]


def _several(config: Config) -> Iterator[InitErrorDetails]:
    n_targets = len(config.source.targets)
    for i, entry in enumerate(config.models):
        if entry.params.view == "combined":
            yield _error(
                f"{entry.name} learns one target; there are {n_targets}: list the models to compare", "models", i
            )
        elif not entry.params.learns_jointly:
            continue
        elif getattr(entry.params, "class_weight", None) is not None:
            what = f"class_weight is for one target; {entry.name} learns {n_targets} together: remove it"
            yield _error(what, "models", i)
        elif isinstance(entry.params, XGBoost) and config.cluster.scheduler is not None:
            yield _error(f"{_JOINT} trains in one process: use one_output_per_tree on a cluster", "models", i)
    for i, op in enumerate(config.features):
        if op.title() == "generate":
            what = f"it chooses features for one target; there are {n_targets}: remove it"
            yield _error(what, "features", i, op.title())


def _single(config: Config) -> Iterator[InitErrorDetails]:
    for i, entry in enumerate(config.models):
        is_tried = entry.tune is not None and "multi_strategy" in (entry.tune.space or {})
        if isinstance(entry.params, XGBoost) and (entry.params.learns_jointly or is_tried):
            yield _error(f"{_JOINT} is for several targets: list them in source.target, or remove it", "models", i)


_JOINT = "multi_strategy: multi_output_tree"


def _models(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    able = ", ".join(name for name, model in MODELS.items() if task in model.tasks)
    for i, entry in enumerate(config.models):
        if task not in entry.params.tasks:
            yield _error(f"{entry.name} cannot learn the task {task}; choose from {able}", "models", i)


def _metrics(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    try:
        metric_names({task}, config.evaluate)
    except ConfigError as error:
        yield _error(f"{error.what}; {error.fix}", *str(error.where).split("."))


def _ranking(config: Config) -> Iterator[InitErrorDetails]:
    if config.split.group is None:
        also = "; it has no predefined split" if config.split.column is not None else ""
        what = f"a ranking needs the column whose equal values are ranked together{also}"
        yield _error(what, "split", "group")
    if config.source.weight is not None:
        yield _error("a ranking takes no row weights: remove it", "source", "weight", given=config.source.weight)


def _intervals(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    level, quantiles = config.evaluate.intervals, config.source.quantile_levels
    if level is not None and task == "ranking":
        yield _error("the scores of a ranking have no intervals: remove it", "evaluate", "intervals", given=level)
    elif level is not None and interval_ends(level, quantiles) is None:
        ends = f"{0.5 - level / 2:g} and {0.5 + level / 2:g}"
        what = f"{level:g} needs the quantiles {ends}; add them to source.quantiles"
        yield _error(what, "evaluate", "intervals", given=level)


def _error(message: str, *path: str | int, given: Any = None) -> InitErrorDetails:
    error = PydanticCustomError("task", "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=path, input=given)
