"""The whole configuration. Each section belongs to the part that it configures, and is put into its place here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from gpupipe.backends import Device, DeviceOptions
from gpupipe.config.cluster import ClusterSettings
from gpupipe.config.document import Node
from gpupipe.config.event_ops import entity_mistakes, keyed_ops
from gpupipe.config.features import OpItem, default_features
from gpupipe.config.limits import Limits
from gpupipe.config.models import ModelEntry, refuse_shared_labels
from gpupipe.config.redaction import Redactor
from gpupipe.config.registered_parts import combine_errors
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.metrics.settings import Evaluate
from gpupipe.report.settings import Report
from gpupipe.rules import ColumnRules
from gpupipe.settings import Settings, Size
from gpupipe.splits import Split
from gpupipe_kernels.engines import EngineSetting


class GpuSettings(Settings):
    """The allocator of the device's memory, shared by CuPy, cuDF, cuML and, with ``async``, XGBoost."""

    allocator: Literal["async", "pool", "managed", "cuda"] = Field(
        default="async",
        description="async: the driver's default pool, shared with XGBoost. pool: RMM's. managed: a pool that the "
        "driver moves to the host and back. cuda: no pool.",
    )
    initial_pool: Size | None = Field(default=None, description="What a pool begins with, as in 8GiB.")
    limit: Size | None = Field(default=None, description="The most that may be allocated at once; default: all of it.")
    spill: bool = Field(default=False, description="Let cuDF move to the host what it does not use.")

    @field_validator("limit")
    @classmethod
    def _is_no_less_than_the_pool_begins_with(cls, limit: int | None, info: ValidationInfo) -> int | None:
        initial = info.data.get("initial_pool")
        if limit is not None and initial is not None and limit < initial:
            raise ValueError(f"initial_pool is {initial:,} bytes already, more than the limit of {limit:,}")
        return limit


@dataclass(frozen=True)
class ConfigOrigin:
    """The file or folder of a configuration. Not part of its value: equal configurations may differ in it."""

    path: Path | None = field(default=None, compare=False)
    document: Node | None = field(default=None, compare=False, repr=False)  # each value, as and where it was written
    redactor: Redactor = field(default_factory=Redactor, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """The folder that holds the file, or the working directory."""
        return self.path.parent if self.path else Path()


class Config(Settings):
    """What ``gpupipe run`` does: read a table, make features, train models, evaluate them, write a run directory.

    `gpupipe.config.load_config` makes one from a file, `gpupipe.config.parse_config` from a dict; both accept the short
    forms of ops and models, and find all mistakes at once.
    """

    name: str = Field(
        default="pipeline", min_length=1, description="Begins the run directory's name; default: the file's name."
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="Of everything random: split, folds, models.")
    device: Device = Field(
        default="auto",
        description="Where to run. gpu: there or an error. auto: there if it can be; says what ran where.",
    )
    fallback: Literal["forbid", "allow"] | None = Field(
        default=None,
        description="Whether a step that the GPU cannot do may run on the CPU, and say so; default: forbid where the "
        "device is gpu, allow where it is auto.",
    )
    engine: EngineSetting = Field(
        default="auto",
        description="What learns statistics and computes over histories and texts on the CPU. numba: compiled loops; "
        "a first run waits seconds for the compiler. auto: numba where it saves more than that.",
    )
    gpu: GpuSettings = Field(default_factory=GpuSettings, description="How a GPU's memory is used.")
    cluster: ClusterSettings = Field(
        default_factory=ClusterSettings, description="Which workers share the run; without a scheduler: none."
    )
    source: Source = Field(description="The table to learn from.")
    tables: dict[str, JoinedTable] = Field(
        default_factory=dict, description="Further tables by name, each with how it joins the source."
    )
    data: dict[str, ColumnRules] = Field(
        default_factory=dict,
        description="Rules of columns, by name, glob or @kind, enforced when a model is trained and when it predicts.",
    )
    split: Split = Field(default_factory=Split, description="Which rows are held back to test the models.")
    features: tuple[OpItem, ...] = Field(
        default_factory=default_features,
        description="Feature ops, in the order of the columns that come out; omitted: what suits each column.",
    )
    models: Annotated[tuple[ModelEntry, ...], AfterValidator(refuse_shared_labels)] = Field(
        default=(), description="The leaderboard, whose best model is exported; omitted: two that suit the task."
    )
    evaluate: Evaluate = Field(default_factory=Evaluate, description="What is measured on the test rows.")
    limits: Limits = Field(default_factory=Limits, description="What the run may use before it stops.")
    report: Report = Field(default_factory=Report, description="What report.html shows.")
    output: str = Field(default="runs/", min_length=1, description="The folder in which run directories are made.")

    _origin: ConfigOrigin = PrivateAttr(default_factory=ConfigOrigin)

    def __repr__(self) -> str:
        models = ", ".join(entry.label for entry in self.models[:4]) + (", …" if len(self.models) > 4 else "")
        source = self.origin.redactor.hide(self.source.label)[:80]
        return f"Config({self.name!r}: {source}, {len(self.features)} ops, {models or 'models by task'})"

    __str__ = __repr__

    @model_validator(mode="after")
    def _event_tables_are_used_as_such(self) -> Config:
        ops, mistakes = keyed_ops(self.features, self.source, self.tables)
        mistakes += entity_mistakes(self.source, self.tables)
        if mistakes:
            raise combine_errors("Config", mistakes)
        return self if ops == self.features else self.model_copy(update={"features": ops})

    @model_validator(mode="after")
    def _does_not_read_identifiers(self) -> Config:
        """Drop the columns of ``source.id``, except keys and columns that the split needs."""
        keys = {name for table in self.tables.values() for name in table.on.left}
        keys |= {name for op in self.features if isinstance(op, KeyedOp) for name in op.key_columns()}
        split = self.split
        read = keys | {split.group, split.time, split.column.name if split.column else None}
        gone = tuple(name for name in self.source.id if name not in read and name not in self.source.drop)
        if gone:  # the section is frozen, and still in the making
            self.__dict__["source"] = self.source.model_copy(update={"drop": (*self.source.drop, *gone)})
        return self

    @property
    def device_options(self) -> DeviceOptions:
        """How the configuration wants a GPU to be used, and how much of the host."""
        fallback, gpu = self.fallback or ("forbid" if self.device == "gpu" else "allow"), self.gpu
        pool = gpu.allocator, gpu.initial_pool, gpu.limit, gpu.spill
        return DeviceOptions(fallback, *pool, self.limits.memory, self.engine)

    @property
    def has_frames(self) -> bool:
        """True if the source or a further table is a frame in memory."""
        return any(table.frame is not None for table in (self.source, *self.tables.values()))

    @property
    def origin(self) -> ConfigOrigin:
        """The file it came from."""
        return self._origin
