"""training.json, the settings of a model's training, and the configuration that trains a challenger with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.shapes import Shape
from gpupipe.config import parse_config
from gpupipe.errors import ConfigError
from gpupipe.features.ops.kernel import Kernel
from gpupipe.io.origin_settings import TableOrigin
from gpupipe.io.settings import TableSource
from gpupipe.table.temporal_objects import iso_text

if TYPE_CHECKING:
    from gpupipe.config import Config, ModelEntry
    from gpupipe.features.program.fitted import FittedFeatures

NAME = "training.json"
SECTIONS = ("seed", "data", "split", "features", "evaluate")
CHOSEN = {"fail_on": None, "max_latency": None, "select_by": None}  # of evaluate: they choose among several models
SHAPE: Shape = {name: object for name in ("name", *SECTIONS)} | {"source": {...: object}, "model": {...: object}}
SHAPE |= {"learned_until?": (str, float, None)}


def describe_training(config: Config, entry: ModelEntry, latest: float | None = None) -> dict[str, Any] | None:
    """Return the settings with which a model was trained, as JSON values without secrets and places of files.

    None if more than one table, a hook, a frame or a custom kernel is read: one path does not replace these. `latest`
    is the last value of ``split.time`` among the training rows: a number, or microseconds since 1970-01-01 UTC, as an
    integer.
    """
    source = config.source
    has_kernel = any(isinstance(op, Kernel) for op in config.features)
    if config.tables or config.has_frames or source.prepare or source.entities or has_kernel:
        return None
    values = config.model_dump(mode="json", by_alias=True)
    own = {key: value for key, value in values["source"].items() if key not in TableOrigin.model_fields}
    model = {**entry.model_dump(mode="json", by_alias=True), "tune": None}
    found = {name: values[name] for name in ("name", *SECTIONS)} | {"source": own, "model": model}
    found["learned_until"] = iso_text(latest) if isinstance(latest, int) else latest
    hidden = config.origin.redactor.hide_all(found)
    assert isinstance(hidden, dict)
    return hidden


@dataclass(frozen=True)
class TrainingSettings:
    """Settings with which a model was trained."""

    values: dict[str, Any]

    @classmethod
    def read(cls, reader: ArtifactReader) -> Self:
        """Return the settings in an open model; raise ConfigError if it has none."""
        if NAME not in reader.names():
            raise ConfigError(
                "the model does not have the settings of its training: an earlier version wrote it, or it was trained "
                "with several tables, a frame, a prepare hook or a custom kernel",
                where=str(reader.folder),
                fix="run its configuration again, then compare the models with `gpupipe diff`",
            )
        return cls(reader.json(NAME, SHAPE))

    @property
    def time(self) -> str | None:
        """The column by which the rows were split, if they were split by time."""
        found: str | None = self.values["split"]["time"]
        return found

    @property
    def where(self) -> str | None:
        """The row filter of the training."""
        found: str | None = self.values["source"]["where"]
        return found

    def of_challenger(self, reader: ArtifactReader) -> dict[str, Any]:
        """Return the settings in a challenger, with the row filter of these."""
        own = self.read(reader).values
        return {**own, "source": {**own["source"], "where": self.where}}

    def since(self, rows: pa.Table) -> Self:
        """Return the settings with a row filter that also excludes the rows of a table that the model has learned.

        They are those that are not later than the last training row, if the rows were split by a column of times or
        numbers; without such a column, none are.
        """
        until = self.values.get("learned_until")
        if until is None or self.time not in rows.column_names:
            return self
        kind = rows.schema.field(self.time).type
        is_number = not isinstance(until, str) and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        if not (is_number or (isinstance(until, str) and pa.types.is_timestamp(kind))):
            return self
        later = f"`{self.time}` > {until!r}"
        where = later if self.where is None else f"({self.where}) and {later}"
        return replace(self, values={**self.values, "source": {**self.values["source"], "where": where}})

    def source(self, path: str) -> TableSource:
        """Return the source of a table with the columns and the rules of reading of the training."""
        own = {key: value for key, value in self.values["source"].items() if key in TableSource.model_fields}
        own["schema"] = self.values["source"]["schema"]
        return TableSource.model_validate({**own, "path": path})

    def config(self, paths: Sequence[str], test_share: float, output: str, features: FittedFeatures | None) -> Config:
        """Return the configuration of a challenger, which is tested on the newest `test_share` of the rows.

        `paths` are in the order of time. With `features`, those of a continued training, columns have the kinds that
        they had: those of new rows alone may look like others.
        """
        values = self.values
        declared = dict(values["source"]["schema"])
        for column in () if features is None else features.input_schema:
            if column.kind == "categorical":
                declared.setdefault(column.source, {"kind": "categorical"})
        source = {**values["source"], "schema": declared, "path": list(paths)}
        split = {"test_size": test_share, **({"shuffle": False, "stratify": False} if self.time is None else {})}
        split |= {} if self.time is None else {key: values["split"][key] for key in ("time", "gap", "group", "purge")}
        document = {name: values[name] for name in ("name", *SECTIONS) if name != "split"}
        document |= {"source": source, "split": split, "models": [values["model"]], "output": output}
        document |= {} if features is None else {"device": "cpu"}
        document["evaluate"] = {**values["evaluate"], **CHOSEN}
        return parse_config(document)
