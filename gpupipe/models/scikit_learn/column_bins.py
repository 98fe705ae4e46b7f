"""Bins of histogram gradient boosting, computed for a few columns at a time.

scikit-learn 1.9 first converts the whole float32 matrix to float64, and copies it once more if columns are categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.units import MIB

if TYPE_CHECKING:
    from gpupipe.typing import Array, HostArray

BLOCK_BYTES = 32 * MIB  # of the float64 copy of some columns
VERSIONS = ("1.8", "1.9")  # of scikit-learn, whose private methods are known; others bin the whole matrix themselves
STATE = ("is_categorical_", "bin_thresholds_", "n_bins_non_missing_")


def can_bin_columns() -> bool:
    """Return whether the installed scikit-learn is one of `VERSIONS`."""
    return version("scikit-learn").rpartition(".")[0] in VERSIONS


@contextmanager
def bins_of_columns(estimator: Any, n_threads: int) -> Iterator[None]:
    """Within the block, `estimator` bins a float32 matrix without a float64 copy, and has the same bins.

    The thresholds and bins are those of scikit-learn's own bin mapper, which treats each column by itself.
    """
    prepare = estimator._preprocess_X

    def preprocess(X: Array, *, reset: bool) -> Any:
        if not reset:
            return X
        return X, prepare(X[_rows_with_all_codes(X, estimator.categorical_features or ())], reset=True)[1]

    def bin_data(X: Array, *weights: Any, is_training_data: bool) -> Array:
        import numpy as np
        from sklearn.base import clone

        mapper, named = estimator._bin_mapper, dict(zip(("sample_weight",), weights, strict=False))
        binned = np.empty(X.shape, np.uint8, order="F" if is_training_data else "C")
        step = max(n_threads, BLOCK_BYTES // (8 * max(1, len(X))))
        fitted: list[Any] = []
        for start in range(0, X.shape[1], step):
            columns = slice(start, start + step)
            own = clone(mapper)
            if mapper.is_categorical is not None:
                own.set_params(
                    is_categorical=mapper.is_categorical[columns], known_categories=mapper.known_categories[columns]
                )
            values = _values_of(estimator, X, range(X.shape[1])[columns])
            if is_training_data:
                own.fit(values, **named)
            else:
                for name in STATE:
                    setattr(own, name, getattr(mapper, name)[columns])
                own.missing_values_bin_idx_ = mapper.missing_values_bin_idx_
            binned[:, columns] = own.transform(values)
            fitted.append(own)
        if is_training_data:
            mapper.missing_values_bin_idx_ = fitted[0].missing_values_bin_idx_
            mapper.bin_thresholds_ = list(chain.from_iterable(own.bin_thresholds_ for own in fitted))
            for name in ("is_categorical_", "n_bins_non_missing_"):
                setattr(mapper, name, np.concatenate([getattr(own, name) for own in fitted]))
        return binned

    estimator._preprocess_X, estimator._bin_data = preprocess, bin_data
    try:
        yield
    finally:
        del estimator._preprocess_X, estimator._bin_data


def _rows_with_all_codes(X: Array, categorical: Sequence[int]) -> HostArray:
    """Return numbers of rows that have every code of the `categorical` columns, from which categories are learned."""
    import numpy as np

    rows = np.zeros((len(categorical), 256), np.int64)
    for place, column in enumerate(categorical):
        rows[place, X[:, column].astype(np.uint8)] = np.arange(len(X))
    return np.unique(np.append(rows, 0))


def _values_of(estimator: Any, X: Array, places: Sequence[int]) -> HostArray:
    """Return some columns as scikit-learn orders and encodes them: categories first, NaN for an unknown category."""
    import numpy as np

    values = np.empty((len(X), len(places)), np.float64, order="F")
    is_category = estimator.is_categorical_
    order = np.arange(X.shape[1]) if is_category is None else np.argsort(~is_category, kind="stable")
    known = () if is_category is None else estimator._preprocessor.named_transformers_["encoder"].categories_
    for out, place in zip(values.T, places, strict=True):
        out[:] = X[:, order[place]]
        if place < len(known):
            codes = np.searchsorted(known[place], out).clip(max=len(known[place]) - 1)
            out[:] = np.where(known[place][codes] == out, codes, np.nan)
    return values
