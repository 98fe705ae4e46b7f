"""Independent units of the rows that the bootstrap draws: rows, whole groups, or whole days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import yaml

from gpupipe.config.scalars import Loader
from gpupipe.errors import GpupipeError
from gpupipe.inference.drift.files import read_reference
from gpupipe.inference.drift.periods import NO_PERIOD, period_column
from gpupipe.metrics.bootstrap import FEWEST_ROWS
from gpupipe.metrics.settings import Costs
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

MALFORMED = (GpupipeError, AttributeError, KeyError, OSError, TypeError, ValueError, yaml.YAMLError)


@dataclass(frozen=True)
class RecordedSplit:
    """Columns that the run of a model was split by, and its costs of errors.

    A model directory has the time column; the group and the costs are in the configuration of the run around it.
    """

    group: str = ""
    time: str = ""
    costs: Costs | None = None

    @staticmethod
    def of(model: Model) -> RecordedSplit:
        """Return what is recorded; nothing for an exported model of an earlier version."""
        try:
            reference = read_reference(model.open_files())
        except MALFORMED:
            reference = None
        time = "" if reference is None else reference.time
        path = model.folder.parent / "config.yaml"
        if model.folder.name != "model" or not path.is_file():
            return RecordedSplit(time=time)
        try:
            settings = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
            costs = settings["evaluate"]["cost"]
            return RecordedSplit(settings["split"]["group"] or "", time, None if costs is None else Costs(**costs))
        except MALFORMED:
            return RecordedSplit(time=time)


@dataclass(frozen=True)
class ResampledUnits:
    """Codes of the units of all rows, int64, shape (n,); None if each row is a unit. `name` is for readers."""

    codes: HostArray | None
    name: str


def resampled_units(split: RecordedSplit, columns: pa.Table, rows: HostArray, model: Model) -> ResampledUnits:
    """Return the units of the rows with these numbers: the groups of the split, or the days of its time.

    Rows of one group, or of one day, are not independent; of times that are numbers, each value is a unit. Rows are the
    units if a split has neither, if the table lacks the column, or if there are fewer than 20 units, whose spread would
    say little; the name has the reason.
    """
    reason = ""
    for name, what in ((split.group, "groups"), (split.time, "days")):
        if not name:
            continue
        if name not in columns.column_names:
            reason = f", as the table has no column {name}"
            continue
        table = columns.select([name]).take(pa.array(rows))
        if what == "days" and _is_number(table, model):
            what = "values"
        codes = np.unique(_days(table, name, model) if what == "days" else _groups(table), return_inverse=True)[1]
        n_units = int(codes.max(initial=-1)) + 1
        if n_units >= FEWEST_ROWS:
            return ResampledUnits(codes, f"{what} of {name}")
        reason = f", as there are only {n_units} {what} of {name}"
    return ResampledUnits(None, f"rows{reason}")


def _is_number(table: pa.Table, model: Model) -> bool:
    """Return whether a column has numbers that the model does not read as times."""
    field = table.schema.field(0)
    is_time = any(each.name == field.name and each.kind == "datetime" for each in model.features.input_schema)
    return not is_time and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))


def _groups(table: pa.Table) -> HostArray:
    codes = table.column(0).cast(pa.string()).combine_chunks().dictionary_encode().indices.to_numpy(False)
    found: HostArray = np.nan_to_num(codes, nan=-1.0)  # rows without a group are one
    return found


def _days(table: pa.Table, name: str, model: Model) -> HostArray:
    known = {column.name: column for column in model.features.input_schema}
    keys = np.asarray(period_column("day", name, known.get(name), table, model.backend).keys(table))
    return np.where(keys == NO_PERIOD, keys.min() if len(keys) else 0, keys)
