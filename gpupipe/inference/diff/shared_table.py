"""Table that two models predict, each with its reader settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import DataError, SchemaError, did_you_mean
from gpupipe.inference.drift.detection import open_table
from gpupipe.inference.drift.sample import every_row, join_alike
from gpupipe.inference.prediction.batches import encode_rows, predict_rows
from gpupipe.inference.prediction.rows import RowsToPredict, rows_to_predict
from gpupipe.io.chunks.chunk_stream import read_ahead, slices
from gpupipe.io.files import mask
from gpupipe.io.settings import TableSource
from gpupipe.models import Prediction
from gpupipe.models.device.fitted import matrix_on_host
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.table.encode_chunks import rows_counted_after
from gpupipe.table.frames import frame_to_arrow, is_frame
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.explanation.explanation import Explanation
    from gpupipe.inference.model import Model

SLICE_ROWS = 131_072  # rows that are predicted at once


def _unchanged(source: TableSource) -> TableSource:
    return source


@dataclass(frozen=True)
class SharedTable:
    """Table that two models predict.

    `data`, `tables` and `as_of` are as in `gpupipe.Model.predict`. `adjust` changes the source of a path, such as by
    the reader options of a command line.
    """

    data: Any
    tables: Mapping[str, Any] | None = None
    as_of: Any = None
    adjust: Callable[[TableSource], TableSource] = _unchanged

    @staticmethod
    def of(data: Any, tables: Mapping[str, Any] | None = None, as_of: Any = None) -> SharedTable:
        """Return the table; a stream, which can be read once, is read."""
        is_stream = not isinstance(data, str | Path | TableSource | pa.Table) and not hasattr(data, "iloc")
        return SharedTable(frame_to_arrow(data) if is_stream and is_frame(data) else data, tables, as_of)

    @property
    def label(self) -> str:
        """Name of the table in messages."""
        return mask(str(self.data)) if isinstance(self.data, str | Path) else "the given table"

    def predict(
        self, model: Model, further: Sequence[str] = (), required: Sequence[str] = ()
    ) -> tuple[Prediction, pa.Table]:
        """Return the calibrated prediction of each row, and the `further` columns that the table has.

        The rules of the model are not enforced, and nothing is warned about. Raise DataError if there are no rows,
        SchemaError if one of the `required` further columns is missing, and GpupipeError as `gpupipe.Model.predict`.
        """
        lenient = replace(model, rules=(), warns=False)
        parts: list[Prediction] = []
        kept: list[pa.Table] = []
        n_rows = 0
        for chunk in read_ahead(self._chunks(model, further)):
            if missing := [name for name in required if name not in chunk.column_names]:
                fix = did_you_mean(missing[0], [*model.inputs, *chunk.column_names]) or "name a column of the table"
                raise SchemaError(f"no column {missing[0]!r} to divide the rows by", where=self.label, fix=fix)
            with rows_counted_after(n_rows):
                parts.append(predict_rows(lenient, self._rows(lenient, chunk))[0])
            kept.append(every_row(chunk.select([name for name in further if name in chunk.column_names]), 0, 1))
            n_rows += chunk.num_rows
        if not n_rows:
            raise DataError("there are no rows", where=self.label, fix="check that this is the right table")
        return join_predictions(parts), pa.concat_tables(kept, promote_options="permissive")

    def explain(self, model: Model, numbers: HostArray) -> tuple[Explanation, pa.Table]:
        """Return the explanation of the rows with ascending `numbers`, int64, and their input columns."""
        from gpupipe.inference.explanation.explanation import join_explanations

        lenient = replace(model, rules=(), warns=False)
        found: list[Explanation] = []
        kept: list[pa.Table] = []
        start, has_history = 0, model.features.derivation is not None
        for chunk in self._chunks(model, ()):
            own = numbers[(numbers >= start) & (numbers < start + chunk.num_rows)] - start
            start += chunk.num_rows
            if not len(own):
                continue
            kept.append(every_row(chunk.take(pa.array(own)), 0, 1))
            encoded, _ = encode_rows(lenient, self._rows(lenient, chunk if has_history else kept[-1]))
            X = np.asarray(matrix_on_host(model.features.transform(encoded, model.backend), model.backend))
            found.append(model.explainer.explain(np.ascontiguousarray(X[own] if has_history else X)))
        return join_explanations(found), pa.concat_tables(kept, promote_options="permissive")

    def _rows(self, model: Model, chunk: pa.Table) -> RowsToPredict:
        names = [name for name in model.inputs if name in chunk.column_names]
        return rows_to_predict(model, chunk.select(names), self.tables, self.as_of)

    def _chunks(self, model: Model, further: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the inputs of a model and the `further` columns, in slices unless features need other rows."""
        data, wanted = self.data, dict.fromkeys([*model.inputs, *further])
        if isinstance(data, str | Path | TableSource):
            data = self.adjust(data if isinstance(data, TableSource) else model.source_of(str(data)))
        texts = [name for name in further if name not in (*model.inputs, *model.goal.names)]
        opened = open_table(model, data, further, lambda found: [name for name in wanted if name in found], texts)
        if model.features.derivation is not None:
            yield from join_alike(opened.chunks)
        else:
            yield from chain.from_iterable(slices(table, SLICE_ROWS) for table in opened.chunks)
