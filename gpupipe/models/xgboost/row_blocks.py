"""XGBoost's bins of selected rows, which are passed in blocks instead of as a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import xgboost

from gpupipe.models.selected_rows import SelectedRows

if TYPE_CHECKING:
    from gpupipe.typing import Array

BLOCK_ROWS = 65_536
OF_ROWS = ("label", "weight")


@contextmanager
def bin_selected_rows(estimator: Any) -> Iterator[None]:
    """Within the block, `estimator` is fitted to `SelectedRows` too, with the bins of a copy of them."""
    make = estimator._create_dmatrix

    def make_bins(*, ref: Any, data: Any, **settings: Any) -> Any:
        if not isinstance(data, SelectedRows):
            return make(ref=ref, data=data, **settings)
        shared = {name: settings[name] for name in ("missing", "enable_categorical")}
        shared |= {"ref": ref, "nthread": estimator.n_jobs, "max_bin": estimator.max_bin}
        return xgboost.QuantileDMatrix(_RowBlocks(data, settings), **shared)

    estimator._create_dmatrix = make_bins
    try:
        yield
    finally:
        del estimator._create_dmatrix


class _RowBlocks(xgboost.DataIter):  # type: ignore[misc]
    """Data iterator over blocks of selected rows with their targets and weights."""

    def __init__(self, data: SelectedRows, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.data, self.start = data, 0
        self.of_rows: dict[str, Array] = {name: settings[name] for name in OF_ROWS if settings[name] is not None}
        self.kinds = settings["feature_types"]

    def reset(self) -> None:
        """Restart from the first row."""
        self.start = 0

    def next(self, input_data: Any) -> bool:
        """Pass the next block; return whether there was one."""
        if self.start >= len(self.data):
            return False
        block = slice(self.start, self.start + BLOCK_ROWS)
        own = {name: values[block] for name, values in self.of_rows.items()}
        input_data(data=self.data[block], **own, feature_types=self.kinds)
        self.start = block.stop
        return True
