"""The feature program as a scikit-learn transformer, for anyone's ``Pipeline`` and ``GridSearchCV``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast, get_args

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from gpupipe.backends import Backend, choose
from gpupipe.config.advice import yaml_to_python
from gpupipe.config.load import parse_ops
from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.features.history.derivation import derive, derived_ops, key_columns
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.fitted import FittedFeatures, fit_features
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import Statistics
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.frames import frame_to_arrow, is_frame
from gpupipe.table.schema import DeclaredColumn, declare
from gpupipe.tasks import View
from gpupipe.typing import Array


class FeatureProgram(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Feature ops, fitted once and run in one pass into one float32 matrix.

    Parameters
    ----------
    ops : sequence of Op or of single-key mappings, default=None
        As in a configuration: ``[{"impute": {"columns": "@numeric"}}, {"one_hot": "@categorical"}]``. None does what
        suits each column.
    view : {"dense", "codes", "embedding"}, default="dense"
        What columns that no op names become: scaled numbers without nulls; integer ids and numbers as they are; or
        scaled numbers first, and ids to embed last.
    schema : mapping of str to str or mapping, default=None
        Column to kind or dtype, where inference should not decide; for times in text of an unusual form
        ``{"kind": "datetime", "format": "%d.%m.%Y"}``.
    device : {"auto", "cpu", "gpu"}, default="auto"
        Where it computes. The matrix is a NumPy array, but for "gpu": then it is CuPy's and stays there.
    random_state : int, default=0
        Seed of the folds of target encodings.

    Attributes
    ----------
    fitted_ : FittedFeatures
        Schema, program, and the name and lineage of each column.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined where the input has column names that are all strings.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"plan": ["a", "b", None], "age": [20.0, None, 40.0]})
    >>> FeatureProgram([{"one_hot": "plan"}, {"impute": "age"}]).fit_transform(frame).tolist()
    [[1.0, 0.0, 0.0, 20.0], [0.0, 1.0, 0.0, 30.0], [0.0, 0.0, 1.0, 40.0]]
    """

    def __init__(
        self,
        ops: Sequence[FeatureOp | Mapping[str, Any]] | None = None,
        *,
        view: str = "dense",
        schema: Mapping[str, str | Mapping[str, str]] | None = None,
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.ops = ops
        self.view = view
        self.schema = schema
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the ops.

        Parameters
        ----------
        X : frame, or array of numbers or strings, shape (n_rows, n_columns)
            A frame is one of pandas, polars, pyarrow, cuDF or DuckDB, anything with ``__arrow_c_stream__``, or a dict
            of sequences.
        y : array, shape (n_rows,), optional
            Needed by target encodings: class labels or numbers.

        Raises
        ------
        ConfigError
            If a parameter is wrong (every mistake in the ops at once), or an op does not fit the columns.
        SchemaError
            If a column contradicts `schema`.
        DataError
            If `X` is neither a frame nor an array.
        ValueError
            As scikit-learn's own estimators: for arrays that are not 2-D, other columns than those of the fit, or a
            `y` of another length.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the matrix of the rows fitted: target encodings are cross-fitted there.

        So the result may differ from ``fit(X, y).transform(X)``, as with scikit-learn's TargetEncoder.
        """
        table, backend = self._fit(X, y)
        return self._handed(self.fitted_.transform_training(table, backend), backend)

    def transform(self, X: Any) -> Array:
        """Return the matrix of `X`, float32, shape (n_rows, n_outputs), column-major."""
        check_is_fitted(self)
        backend = choose(self.device)
        table = self.fitted_.encode(self._arrow(X, reset=False), backend)
        return self._handed(self.fitted_.transform(table, backend), backend)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of the matrix."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.asarray(self.fitted_.names, dtype=object)

    def _fit(self, X: Any, y: Any) -> tuple[Table, Any]:
        if self.view not in get_args(View):
            views = ", ".join(map(repr, get_args(View)))
            hint = did_you_mean(str(self.view), get_args(View))
            raise ConfigError(f"view: expected one of {views}; got {self.view!r}", fix=hint)
        ops = [] if self.ops is None else list(parse_ops(self.ops))
        declared = _declared(self.schema)
        backend = choose(self.device)
        arrow = self._arrow(X, reset=True)
        derived = derived_ops(ops)
        table, derivation = encode(arrow, backend, declared), None
        if derived:
            main = HistoryRows.of_arrow(table, arrow, "the table")
            table, derivation = derive(derived, DerivationSources(main, {}, backend))
            table = table.select(table.schema.without(key_columns(ops)))
        statistics = Statistics(table, backend, None if y is None else _target(y, table.n_rows), self.random_state)
        self.fitted_: FittedFeatures = fit_features(ops, statistics, cast(View, self.view), derivation)
        for text in self.fitted_.warnings:
            warnings.warn(yaml_to_python(text), stacklevel=3)
        return statistics.table, backend

    def _handed(self, matrix: Array, backend: Backend) -> Array:
        """Return the matrix where the next step takes it: scikit-learn's do not take CuPy's arrays."""
        return matrix if self.device == "gpu" else backend.to_host(matrix.T).T  # lines of the transpose are columns

    def _arrow(self, X: Any, reset: bool) -> pa.Table:
        if X is None or isinstance(X, str | bytes | int | float | os.PathLike):
            raise DataError(
                f"X: expected a frame or a 2-D array; got {type(X).__name__}",
                fix="read a file first: pandas.read_csv(...)",
            )
        if not is_frame(X):
            values = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            return pa.table({f"x{i}": pa.array(values[:, i], from_pandas=True) for i in range(values.shape[1])})
        arrow = frame_to_arrow(X)
        # pandas' own names may be numbers, which scikit-learn does not keep.
        validate_data(self, X if hasattr(X, "iloc") else arrow, reset=reset, skip_check_array=True)
        if arrow.num_rows == 0:
            shape = (0, arrow.num_columns)
            raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
        return arrow

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []  # float32, always
        return tags


def _declared(schema: Any) -> dict[str, DeclaredColumn]:
    if not isinstance(schema, Mapping | None):
        raise ConfigError(f"schema: expected a dict of column names to kinds; got {type(schema).__name__}")
    found = {}
    for name, kind in (schema or {}).items():
        given = {"kind": kind} if isinstance(kind, str) else kind
        if not isinstance(given, Mapping) or not {"kind"} <= set(given) <= {"kind", "format"}:
            what = f"schema[{name!r}]: expected a kind, or a dict with kind and format; got {kind!r}"
            raise ConfigError(what, fix="such as 'float', or {'kind': 'datetime', 'format': '%d.%m.%Y'}")
        found[str(name)] = declare(given["kind"], given.get("format"))
    return found


def _target(y: Any, n_rows: int) -> Target:
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    y = column_or_1d(y)
    check_consistent_length(y, np.empty(n_rows))
    if type_of_target(y) in ("binary", "multiclass"):
        classes, codes = np.unique(y, return_inverse=True)
        return Target(codes.astype(np.float64), len(classes))
    return Target(np.asarray(y, np.float64), 0)
