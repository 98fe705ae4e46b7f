"""The last events of a key as a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, HistoryView, require_names
from gpupipe.settings import Names
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN_TEXT, Column
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.features.history.derivation import Derivation


@OPS.register("last_events")
class LastEvents(HistoryOp):
    """Add a list of the last values of a key's history, the oldest first, for the ops on lists.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off.
    Without such rows the list is empty. Null values are null items. Of events to predict from, levels that the training
    table does not have are one unseen item. Later ops select the new column by its name: ``bag_ids`` for networks,
    ``list_stats``, ``multi_hot``, ``list_hash``, ``list_columns``.

    Output: ``product_last_20``: a list column, of which later ops make features. Booleans are 0 and 1.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame(
        ...     {
        ...         "customer": ["ann", "ann", "bob", "ann"],
        ...         "day": pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-04", "2024-01-10"]),
        ...         "spend": [10.0, 30.0, 5.0, 20.0],
        ...     }
        ... )
        >>> last = {"last_events": {"key": "customer", "time": "day", "columns": "spend", "size": 2}}
        >>> stats = {"list_stats": {"columns": "spend_last_2", "stats": ["length", "last", "max"]}}
        >>> program = FeatureProgram([last, stats, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  spend_last_2_length  spend_last_2_last  spend_last_2_max
        0   10.0                  0.0                NaN               NaN
        1   30.0                  1.0               10.0              10.0
        2    5.0                  0.0                NaN               NaN
        3   20.0                  2.0               30.0              30.0
    """

    columns: Names = Field(min_length=1, description="Numeric, boolean or categorical columns.")
    size: int = Field(20, ge=1, le=10_000, description="Maximum number of items of a list.")

    def made_lists(self) -> tuple[str, ...]:
        """Return the names of the new columns."""
        return tuple(self.column_name(f"{name}_last_{self.size}") for name in self.columns)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a list column for each column."""
        from gpupipe.table.list_columns import layout_lists

        view = self.view(sources)
        if sources.backend.name == "gpu":
            sources.backend.note(f"{self.title()}: lists are made on the CPU")
        events, ends = self._events(view)
        for name, made in zip(require_names(self.columns), self.made_lists(), strict=True):
            column, values = view.events.column(name, "numeric", "boolean", "categorical", past=view.past)
            if column.derived:
                what = f"{self.title()} takes columns of the tables; {name!r} is derived by another op"
                raise ConfigError(what, fix="select other columns", names=[name])
            lists = layout_lists(ends, _items(column, sources.backend.to_host(values)[events]))
            yield view.new_column(made, lists, name, like=_list_column(made, column))

    def _events(self, view: HistoryView) -> tuple[HostArray, HostArray]:
        """Return the rows of the listed events, and the end of each list among them after a 0."""
        import numpy as np

        from gpupipe_kernels import keyed

        queries = keyed.last_rows(view.queries, self.size)
        low, high, order = (
            view.sources.backend.to_host(view.array(each)).astype(np.int64)
            for each in (queries.low, queries.high, view.history.order)
        )
        if queries.row is not None:  # rows without a key or a time see no event
            of_rows = np.zeros((2, queries.n_rows), np.int64)
            of_rows[:, view.sources.backend.to_host(view.array(queries.row))] = low, high
            low, high = of_rows
        lengths = high - low
        ends = np.append(0, np.cumsum(lengths))
        return order[np.repeat(low - ends[:-1], lengths) + np.arange(ends[-1])], ends


def made_lists(derivation: Derivation) -> list[Column]:
    """Return the list columns that the ops of a model make."""
    found = []
    for op in derivation.ops:
        if isinstance(op, LastEvents):
            schema = derivation.schema if op.table is None else derivation.tables[op.table].schema
            found += [_list_column(made, schema[name]) for name, made in zip(op.columns, op.made_lists(), strict=True)]
    return found


def _list_column(name: str, column: Column) -> Column:
    """Return the column of lists of the values of `column`."""
    return Column(name, "list", f"list<{'text' if column.kind == 'categorical' else 'number'}>", derived=True)


def _items(column: Column, values: HostArray) -> pa.Array:
    """Return the values of a column as items of lists."""
    import numpy as np
    import pyarrow as pa

    from gpupipe.arrow_numpy import number_array, text_array

    if column.kind == "numeric":
        return number_array(values.astype(np.float64), np.isnan(values))
    if column.kind == "boolean":
        return number_array((values - FIRST_LEVEL).astype(np.float64), values < FIRST_LEVEL)
    levels = text_array([*(column.levels or ()), UNSEEN_TEXT])
    codes = np.where(values >= FIRST_LEVEL, values.astype(np.int32) - FIRST_LEVEL, len(levels) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(number_array(codes, values == NULL), levels)
