"""Feature program as a scikit-learn transformer, for its ``Pipeline`` and ``GridSearchCV``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast, get_args

import numpy as np
import pyarrow as pa
from pydantic import ValidationError
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from gpupipe.backends import Backend, choose
from gpupipe.config.advice import yaml_to_python
from gpupipe.config.load import parse_ops
from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.features.history.derivation import DerivedOp, derive, derived_ops, key_columns
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.bag_ids import bags_of
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.ops.items_op import list_columns
from gpupipe.features.program.fit import fit_features
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import make_statistics
from gpupipe.io.arrow_types import plain_categories
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.dask_table import DaskTable
from gpupipe.io.in_memory import type_name
from gpupipe.names import is_unnamed
from gpupipe.pipeline.api.arguments import python_notation
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.encode import encode
from gpupipe.table.frames import frame_to_arrow, is_dask_frame, is_frame
from gpupipe.table.schema import DeclaredColumn, declare, declare_lists
from gpupipe.table.time_columns import is_text, iso_times, read_as_times
from gpupipe.tasks import View
from gpupipe.tensors.bags import IdBags
from gpupipe.training.fit import feature_target
from gpupipe.training.preparation.target import SingleTask, TargetColumn, all_known, infer_goal, target_values
from gpupipe.typing import Array
from gpupipe.user_warnings import warn_user

if TYPE_CHECKING:
    from gpupipe.dask.workers import DaskWorkers


class FeatureProgram(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Feature ops as a scikit-learn transformer from tables to float32 matrices.

    The ops are compiled to one program, which transforms rows in a single pass.

    Parameters
    ----------
    ops : sequence of FeatureOp or of single-key mappings, default=None
        Ops as in a configuration: ``[{"impute": {"columns": "@numeric"}}, {"one_hot": "@categorical"}]``. None encodes
        each column by its kind.
    view : {"dense", "codes", "embedding"}, default="dense"
        Encoding of columns that no op names. "dense": scaled numbers and one-hot categories, without nulls. "codes":
        integer codes, and numbers unchanged. "embedding": scaled numbers first, then integer codes to embed.
    schema : mapping of str to str or mapping, default=None
        Column name to kind or dtype, instead of inference. Datetimes in unusual text formats:
        ``{"kind": "datetime", "format": "%d.%m.%Y"}``.
    device : {"auto", "cpu", "gpu"}, default="auto"
        Device to compute on. The matrix is a NumPy array; with "gpu" it is a CuPy array.
    random_state : int, default=0
        Seed of the folds of target encodings.
    task : {"regression", "binary", "multiclass"}, default=None
        Meaning of the target. By default that of a run: texts, booleans, categories and two whole numbers are classes,
        other numbers are values to predict. State it for class labels such as 0, 1 and 2.

    Attributes
    ----------
    fitted_ : FittedFeatures
        Schema, program, and the name and lineage of each output column.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of str
        Names of the input columns; defined only if all of them are strings.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"plan": ["a", "b", None], "age": [20.0, None, 40.0]})
    >>> program = gp.FeatureProgram([{"one_hot": "plan"}, {"impute": "age"}])
    >>> program.fit_transform(frame).tolist()
    [[1.0, 0.0, 0.0, 20.0], [0.0, 1.0, 0.0, 30.0], [0.0, 0.0, 1.0, 40.0]]
    >>> program.get_feature_names_out().tolist()
    ['plan=a', 'plan=b', 'plan=(null)', 'age']
    """

    fitted_: FittedFeatures

    def __init__(
        self,
        ops: Sequence[FeatureOp | Mapping[str, Any]] | None = None,
        *,
        view: str = "dense",
        schema: Mapping[str, str | Mapping[str, str]] | None = None,
        device: str = "auto",
        random_state: int = 0,
        task: SingleTask | None = None,
    ) -> None:
        self.ops = ops
        self.view = view
        self.schema = schema
        self.device = device
        self.random_state = random_state
        self.task = task

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the ops to `X`.

        Parameters
        ----------
        X : frame, or array of numbers or strings, shape (n_rows, n_columns)
            Frames are those of pandas, polars, pyarrow, cuDF and DuckDB, objects with ``__arrow_c_stream__``, and dicts
            of sequences. A Dask DataFrame is read where its partitions are, by the workers of Dask's current client;
            `y` and the weights may then be its columns.
        y : array, shape (n_rows,), or (n_rows, n_targets) for several targets, optional
            Class labels or numbers, see `task`; required by target encodings.
        sample_weight : array, shape (n_rows,), optional
            Weight of each row in statistics, from 0: a row with weight 2 counts as two equal rows, one with weight 0 as
            none.

        Returns
        -------
        self

        Raises
        ------
        ConfigError
            If a parameter is invalid (all errors in `ops` at once), an op does not fit the columns, or `y` contradicts
            `task`.
        SchemaError
            If a column contradicts `schema`.
        DataError
            If `X` is neither a frame nor an array.
        ValueError
            As in scikit-learn's estimators: if an array is not 2-D, `y` or the weights have another length, `y` has
            missing values, a weight is negative or not finite, or all weights are 0.
        """
        with python_notation(), self._workers(X) as workers:
            self._fit(X, y, sample_weight, workers)
            self._drop_folds(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Any:
        """Fit the ops to `X`, and return the matrix of `X` with cross-fitted target encodings.

        With target encodings, the result differs from ``fit(X, y).transform(X)``, as it does for scikit-learn's
        TargetEncoder. Rows with weight 0 are transformed like new rows. The matrix of a Dask DataFrame is a Dask array
        on the workers.
        """
        if is_dask_frame(X):
            return self._fit_transform_collection(X, y, sample_weight)
        with python_notation():
            table, backend, is_used = self._fit(X, y, sample_weight, None)
        training = self._handed(self.fitted_.transform_training(table, backend), backend)
        if is_used is None:
            return training
        found = self._transformed(X)
        found[is_used] = training
        return found

    def transform(self, X: Any) -> Any:
        """Return the matrix of `X`, float32, shape (n_rows, n_outputs), column-major.

        That of a Dask DataFrame is a lazy Dask array with a chunk per partition.
        """
        check_is_fitted(self)
        if is_dask_frame(X):
            from gpupipe.dask.frame_maps import transform_frame

            self._refuse_set_output()
            self._record_columns(X, reset=False)
            return transform_frame(self.fitted_, X, self.device)
        return self._transformed(X)

    def bags(self, X: Any) -> dict[str, IdBags[Array]]:
        """Return the ids of the lists of `X`, of each column of the op ``bag_ids``.

        Parameters
        ----------
        X : frame
            As for `fit`, except Dask DataFrames.

        Returns
        -------
        dict of str to (ids, offsets)
            Column to arrays of int32, shapes (n_items,) and (n_rows + 1,): the ids of row i are
            ``ids[offsets[i] : offsets[i + 1]]``. As for the matrix, they are NumPy arrays, or CuPy arrays if `device`
            is "gpu".

        Raises
        ------
        SchemaError
            If a column is missing, or has other values than lists.
        DataError
            If `X` is not a frame.

        Examples
        --------
        >>> import gpupipe as gp
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"tags": [["red"], ["blue", "red"]], "x": [1.0, 2.0]})
        >>> program = gp.FeatureProgram([{"bag_ids": "tags"}]).fit(frame)
        >>> program.bags(pd.DataFrame({"tags": [["red", "new"], []], "x": [0.0, 0.0]}))
        {'tags': IdBags(ids=array([4, 1], dtype=int32), offsets=array([0, 2, 2], dtype=int32))}
        """
        check_is_fitted(self)
        backend = choose("gpu" if self.device == "gpu" else "cpu")
        table = self.fitted_.encode(self._arrow(X, reset=False), backend)
        return bags_of(self.fitted_.derivation, table.texts, backend)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the output columns, ndarray of str, shape (n_outputs,)."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.asarray(self.fitted_.names, dtype=object)

    def _workers(self, X: Any) -> AbstractContextManager[DaskWorkers | None]:
        """Return a context manager of the workers that hold `X`; of None for rows in this process."""
        if not is_dask_frame(X):
            return nullcontext()
        self._refuse_set_output()
        from gpupipe.pipeline.api.dask_features import current_workers

        return current_workers(self.device)

    def _refuse_set_output(self) -> None:
        """Raise ConfigError if scikit-learn is to convert the matrix, which would gather a Dask array."""
        own = getattr(self, "_sklearn_output_config", {})
        if own.get("transform", get_config()["transform_output"]) != "default":
            fix = "remove set_output; dask.dataframe.from_dask_array(program.transform(X), columns=names) is a frame"
            raise ConfigError("set_output does not apply to Dask DataFrames, which become Dask arrays", fix=fix)

    def _drop_folds(self, X: Any) -> None:
        """Drop the folds of the rows of a Dask DataFrame, which are on its workers."""
        if is_dask_frame(X):
            self.fitted_ = replace(self.fitted_, training_program=None, folds=None)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, workers: DaskWorkers | None
    ) -> tuple[Any, Backend, Array | None]:
        """Fit the ops; return the encoded rows, the backend, and a mask of the rows with a weight if some have none."""
        if self.view not in get_args(View):
            views = ", ".join(map(repr, get_args(View)))
            hint = did_you_mean(str(self.view), get_args(View))
            raise ConfigError(f"view: expected one of {views}; got {self.view!r}", fix=hint)
        if self.task not in (None, *get_args(SingleTask)):
            tasks = ", ".join(map(repr, get_args(SingleTask)))
            hint = did_you_mean(str(self.task), get_args(SingleTask))
            raise ConfigError(f"task: expected None or one of {tasks}; got {self.task!r}", fix=hint)
        ops = [] if self.ops is None else list(parse_ops(self.ops))
        declared = {**declare_lists(list_columns(ops)), **_declared(self.schema)}
        backend = choose("cpu" if workers else self.device)
        derived = derived_ops(ops)
        table: Any  # partitioned, for a Dask DataFrame
        derivation, warnings = None, list[str]()
        if workers is not None:
            from gpupipe.pipeline.api.dask_features import gathered

            table = self._encode_collection(X, workers, declared, derived)
            y, sample_weight = gathered(y), gathered(sample_weight)
        else:
            arrow = _with_times(self._arrow(X, reset=True), declared)
            table = encode(arrow, backend, declared)
        if derived:
            sources = DerivationSources(HistoryRows.of_arrow(table, arrow, "the table"), {}, backend)
            table, derivation = derive(derived, sources)
            warnings += sources.warnings
            table = table.select(table.schema.without(key_columns(ops)))
        target = None if y is None else _target(y, table.n_rows, self.task)
        weights, is_used = None, None
        if sample_weight is not None:
            weights = _weights(sample_weight, table.n_rows)
            if not (weights > 0).all():
                is_used = weights > 0
                table, weights = table.take(is_used, backend), weights[is_used]
                target = None if target is None else target.take(is_used)
        statistics = make_statistics(table, backend, target, self.random_state, weights)
        self.fitted_ = fit_features(ops, statistics, cast(View, self.view), derivation)
        for text in [*warnings, *(column.unread for column in table.schema if column.unread), *self.fitted_.warnings]:
            warn_user(yaml_to_python(text))
        return statistics.table, backend, is_used

    def _fit_transform_collection(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit the ops to a Dask DataFrame, and return its cross-fitted matrix as a Dask array."""
        from gpupipe.pipeline.api.dask_features import matrix_array

        with python_notation(), self._workers(X) as workers:
            table, backend, is_used = self._fit(X, y, sample_weight, workers)
            try:
                if is_used is not None:
                    what = "fit_transform of a Dask DataFrame needs a positive weight in every row"
                    raise DataError(what, fix="use fit, then transform")
                return matrix_array(write_matrix(table, self.fitted_, backend, is_training=True))
            finally:
                self._drop_folds(X)

    def _encode_collection(
        self, X: Any, workers: DaskWorkers, declared: Mapping[str, DeclaredColumn], derived: Sequence[DerivedOp]
    ) -> EncodedTable:
        """Return a Dask DataFrame, encoded on its workers."""
        from gpupipe.partitions.dask_rows import encode_collection

        frame = DaskTable(X)
        if derived:
            raise frame.refusal(f"{', '.join(op.title() for op in derived)} needs all rows in one process")
        self._record_columns(X, reset=True)
        return encode_collection(frame, workers, declared)

    def _record_columns(self, X: Any, reset: bool) -> None:
        """Record or check the columns of a Dask DataFrame, as scikit-learn does."""
        validate_data(self, X._meta, reset=reset, skip_check_array=True)

    def _transformed(self, X: Any) -> Array:
        """Return the matrix of `X` as an array; `transform` returns a frame after ``set_output``."""
        backend = choose(self.device)
        table = self.fitted_.encode(self._arrow(X, reset=False), backend)
        return self._handed(self.fitted_.transform(table, backend), backend)

    def _handed(self, matrix: Array, backend: Backend) -> Array:
        """Return the matrix as NumPy array unless the device is "gpu", because scikit-learn does not accept CuPy's."""
        return matrix if self.device == "gpu" else backend.to_host(matrix.T).T  # the transpose is row-major

    def _arrow(self, X: Any, reset: bool) -> pa.Table:
        if X is None or isinstance(X, str | bytes | int | float | os.PathLike):
            raise DataError(
                f"X: expected a frame or a 2-D array; got {type(X).__name__}",
                fix="read a file first: pandas.read_csv(...)",
            )
        if type(X).__module__.partition(".")[0] == "dask":
            what = f"X: expected a frame, a Dask DataFrame or a 2-D array; got {type_name(X)}"
            raise DataError(what, fix="dask.dataframe.from_dask_array(X, columns=[...]) makes a frame of an array")
        if not is_frame(X):
            values = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            return pa.table({f"x{i}": pa.array(values[:, i], from_pandas=True) for i in range(values.shape[1])})
        arrow = frame_to_arrow(X)
        # scikit-learn does not record names that are not strings, which pandas allows.
        validate_data(self, X if hasattr(X, "iloc") else arrow, reset=reset, skip_check_array=True)
        if arrow.num_rows == 0:
            shape = (0, arrow.num_columns)
            raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
        ignored = {name for name in arrow.column_names if is_unnamed(name) and name not in (self.schema or {})}
        for name in sorted(ignored) if reset else ():
            what = f"column {name!r} is ignored: it has no name, like a row index; to use it, rename it"
            warn_user(what)
        arrow = arrow.select([name for name in arrow.column_names if name not in ignored]) if ignored else arrow
        return plain_categories(arrow)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []  # float32, always
        return tags


def _with_times(arrow: pa.Table, declared: Mapping[str, DeclaredColumn]) -> pa.Table:
    """Return a table with the texts that are ISO 8601 times as times, with a warning, as `Pipeline` reads frames."""
    for i, (name, column) in enumerate(zip(arrow.column_names, arrow.columns, strict=True)):
        is_plain = name not in declared and not pa.types.is_dictionary(column.type) and is_text(column.type)
        if is_plain and (times := iso_times(column)) is not None:
            warn_user(yaml_to_python(read_as_times(name)))
            arrow = arrow.set_column(i, name, times)
    return arrow


def _declared(schema: Any) -> dict[str, DeclaredColumn]:
    if not isinstance(schema, Mapping | None):
        raise ConfigError(f"schema: expected a dict of column names to kinds; got {type(schema).__name__}")
    found = {}
    for name, kind in (schema or {}).items():
        if isinstance(kind, str):
            found[str(name)] = declare(kind)
            continue
        try:
            found[str(name)] = ColumnSettings.model_validate(kind).declared()
        except ValidationError as error:
            what = f"schema[{name!r}]: expected a kind, or a dict with kind and format; got {kind!r}"
            where = ": ".join([*map(str, error.errors()[0]["loc"]), error.errors()[0]["msg"]])
            raise ConfigError(what, where=where, fix="such as 'float', or {'kind': 'number', 'units': 'kg'}") from None
    return found


def _target(y: Any, n_rows: int, task: SingleTask | None) -> Target:
    """Return the target, or several ones, by the rules of a run: see `infer_goal`."""
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    check_consistent_length(y, np.empty(n_rows))
    values = y if hasattr(y, "iloc") else np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        names = map(str, getattr(values, "columns", [f"y{i}" for i in range(values.shape[1])]))
        columns = [values.iloc[:, i] if hasattr(values, "iloc") else values[:, i] for i in range(values.shape[1])]
        found = [replace(_target(column, n_rows, task), name=name) for column, name in zip(columns, names, strict=True)]
        return replace(found[0], others=tuple(found[1:]))
    arrow = frame_to_arrow({"y": values if values.ndim == 1 else column_or_1d(values)})
    is_coded = pa.types.is_dictionary(arrow.schema[0].type)
    is_text = pa.types.is_string(arrow.schema[0].type) or pa.types.is_large_string(arrow.schema[0].type)
    declared = {"y": declare("categorical")} if is_coded or is_text else {}
    host = choose("cpu")
    target = TargetColumn.of(encode(arrow, host, declared), "y", host)
    if not (is_known := all_known([target])).all():
        row = int(np.argmin(is_known))
        count = np.count_nonzero(~is_known)
        raise ValueError(f"y contains {count:,} missing values (NaN), the first in row {row}; rows are counted from 0")
    goal = infer_goal(target, task)
    codes = target_values([target], np.arange(n_rows), goal, {})
    assert codes is not None
    return feature_target(codes, goal)


def _weights(sample_weight: Any, n_rows: int) -> Array:
    """Return the weights of the rows, float64."""
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected shape ({n_rows},), a weight for each row; got {weights.shape}")
    if not (is_valid := np.isfinite(weights) & (weights >= 0)).all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"sample_weight: expected numbers from 0; found {weights[row]:g} in row {row}; rows are counted from 0. "
            "A weight of 0 drops a row"
        )
    if not weights.any():
        raise ValueError("sample_weight: all weights are zero; give at least one row a positive weight")
    return weights
