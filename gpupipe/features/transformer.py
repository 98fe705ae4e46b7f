"""The feature program as a scikit-learn transformer, for anyone's ``Pipeline`` and ``GridSearchCV``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast, get_args

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from gpupipe.backends import Backend, choose
from gpupipe.errors import ConfigError
from gpupipe.features.base import OPS, FeatureOp
from gpupipe.features.builder import View
from gpupipe.features.derived import derive, derived_ops, key_columns, where_derived
from gpupipe.features.fitted import FittedFeatures, fit_features
from gpupipe.features.sources import Rows, Sources
from gpupipe.features.statistics import Statistics
from gpupipe.features.target import Target
from gpupipe.table.arrange import on_device, select
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare

Array = Any


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
    schema : mapping of str to str, default=None
        Column to kind or dtype, where inference should not decide.
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
        schema: Mapping[str, str] | None = None,
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
        X : pandas.DataFrame, pyarrow.Table, or array of numbers or strings, shape (n_rows, n_columns)
        y : array, shape (n_rows,), optional
            Needed by target encodings: class labels or numbers.

        Raises
        ------
        ConfigError, SchemaError
            If an op does not fit the columns, or a column contradicts `schema`.
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
            raise ValueError(f"The 'view' parameter of FeatureProgram must be one of {views}. Got {self.view!r}.")
        backend = choose(self.device)
        arrow = self._arrow(X, reset=True)
        declared = {name: declare(kind) for name, kind in (self.schema or {}).items()}
        ops = [_op(op) for op in self.ops or ()]
        derived = derived_ops(ops)
        first = where_derived(derived, backend)  # as in `FittedFeatures.encode`
        table, derivation = encode(arrow, first, declared), None
        if derived:
            table, derivation = derive(derived, Sources(Rows.of_arrow(table, arrow, "the table"), {}, first))
            table = on_device(select(table, table.schema.without(key_columns(ops))), backend)
        statistics = Statistics(table, backend, None if y is None else _target(y, table.n_rows), self.random_state)
        self.fitted_: FittedFeatures = fit_features(ops, statistics, cast(View, self.view), derivation)
        return statistics.table, backend

    def _handed(self, matrix: Array, backend: Backend) -> Array:
        """Return the matrix where the next step takes it: scikit-learn's do not take CuPy's arrays."""
        return matrix if self.device == "gpu" else backend.to_host(matrix.T).T  # lines of the transpose are columns

    def _arrow(self, X: Any, reset: bool) -> pa.Table:
        if isinstance(X, pa.Table) or hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) == 0:
                raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
            return X if isinstance(X, pa.Table) else pa.Table.from_pandas(X.rename(columns=str), preserve_index=False)
        values = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        return pa.table({f"x{i}": pa.array(values[:, i], from_pandas=True) for i in range(values.shape[1])})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []  # float32, always
        return tags


def _op(op: FeatureOp | Mapping[str, Any]) -> FeatureOp:
    if isinstance(op, FeatureOp):
        return op
    if len(op) != 1:
        raise ConfigError(f"an op is a mapping of one name to its settings, got {dict(op)}")
    ((name, settings),) = op.items()
    return OPS.get(name).model_validate(settings)


def _target(y: Any, n_rows: int) -> Target:
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    y = column_or_1d(y)
    check_consistent_length(y, np.empty(n_rows))
    if type_of_target(y) in ("binary", "multiclass"):
        classes, codes = np.unique(y, return_inverse=True)
        return Target(codes.astype(np.float64), len(classes))
    return Target(np.asarray(y, np.float64), 0)
