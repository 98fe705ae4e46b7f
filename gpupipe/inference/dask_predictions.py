"""Predictions of Dask DataFrames: lazy collections with the partitions, the divisions and the index of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from gpupipe.dask.frame_maps import index_of, map_frames, partition_backend, transform_frame, warn_client
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.ops.content_op import ContentOp
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.inference.explanation.outputs import reason_names
from gpupipe.inference.prediction.id_columns import IdColumns, choose_columns, output_names, require_free_names
from gpupipe.table.encode import require

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.inference.interface import LoadedModel
    from gpupipe.inference.model import Model


def predict_frame(model: LoadedModel, collection: Any, tables: Any, as_of: Any) -> Any:
    """Return one prediction per row: a Series ``prediction``, or a DataFrame if there are several columns."""
    found, goal = _mapped(model, collection, tables, as_of), model.goal
    if goal.task == "embedding":
        return found
    names = goal.outputs(lambda own: own.quantile_names or ("prediction",))
    return found[names[0] if len(names) == 1 else names]


def probability_frame(model: LoadedModel, collection: Any, tables: Any, as_of: Any) -> Any:
    """Return the probability of each class: a DataFrame with the columns of `gpupipe.Model.predict_table`."""
    names = model.goal.outputs(lambda own: [f"probability_{label}" for label in own.label_texts])
    return _mapped(model, collection, tables, as_of)[names]


def prediction_frame(
    model: LoadedModel, collection: Any, tables: Any, as_of: Any, keep: Sequence[str] = (), explain: int = 0
) -> Any:
    """Return the columns of `gpupipe.Model.predict_table`."""
    names = [str(name) for name in collection.columns]
    kept = choose_columns([], keep, (), names).kept if keep else ()
    taken = [*output_names(model.goal, model.decision), *reason_names(model.goal, explain)]
    require_free_names(IdColumns(kept=tuple(kept)), taken)
    return _mapped(model, collection, tables, as_of, tuple(kept), explain)


def feature_frame(model: LoadedModel, collection: Any, tables: Any, as_of: Any, as_frame: bool) -> Any:
    """Return the feature matrix, as a Dask array or, with names and index, as a DataFrame."""
    found = _row_wise(model, collection, tables, as_of)
    if not as_frame:
        return transform_frame(found.features, collection, found.device)
    return map_frames(collection, _features, found, _token(found), meta=_features(collection._meta, found))


def _mapped(
    model: LoadedModel, collection: Any, tables: Any, as_of: Any, kept: tuple[str, ...] = (), explain: int = 0
) -> Any:
    found = _row_wise(model, collection, tables, as_of)
    meta = _meta(replace(found, rules=()), collection, kept, explain)
    return map_frames(collection, _predict, found, _token(found), kept, explain, meta=meta)


def _row_wise(model: LoadedModel, collection: Any, tables: Any, as_of: Any) -> Model:
    """Return the model to send; raise an error if it cannot predict each partition by itself."""
    if not isinstance(model.features, FittedFeatures):
        raise DataError("an untrusted model predicts in its own process, not on workers", fix="pass data.compute()")
    derivation = model.features.derivation
    is_row_wise = derivation is None or all(isinstance(op, ContentOp) for op in derivation.ops)
    if not is_row_wise or tables is not None or as_of is not None:
        raise ConfigError(
            "features of histories need all rows and tables in one process; those of a Dask DataFrame stay "
            "in its partitions",
            where="data",
            fix="pass data.compute(), or files to `gpupipe predict --cluster`",
        )
    if unique := [each.column for each in model.rules if each.rules.unique]:
        raise ConfigError(
            f"the rule `unique` of column {unique[0]!r} needs all rows in one process",
            where="data",
            fix="pass data.compute(), or files to `gpupipe predict --cluster`",
        )
    require([str(name) for name in collection.columns], model.inputs, "the model needs")
    lenient = replace(model, warns=False)  # a column may have no known value in one partition only
    return cast("Model", lenient)  # only models of this process have fitted features


def _meta(model: Model, collection: Any, kept: tuple[str, ...], explain: int) -> pd.DataFrame:
    """Return the empty result; the number of components of an embedding is known after the first row."""
    frame = collection._meta
    empty = _predict(frame, model, kept, explain)
    if model.goal.task == "embedding":
        row = pa.table({name: pa.nulls(1) for name in model.inputs})
        components = model.predict_table(row).slice(0, 0).to_pandas()
        empty = empty.join(components.set_axis(empty.index))
    return empty


def _predict(frame: Any, model: Model, kept: tuple[str, ...], explain: int) -> pd.DataFrame:
    """Return the predictions of one partition."""
    import pandas as pd

    backend = partition_backend(model.device)
    local = replace(model, backend=backend)
    found: pd.DataFrame = local.predict_table(frame, explain=explain).to_pandas().set_axis(index_of(frame))
    for note in backend.take_notes():
        warn_client(note)
    if not kept:
        return found
    columns = {str(name): name for name in frame.columns}
    copied = frame[[columns[name] for name in kept]]
    copied = copied.to_pandas() if hasattr(copied, "to_pandas") else copied
    joined: pd.DataFrame = pd.concat([copied.rename(columns=str), found], axis=1)
    return joined


def _features(frame: Any, model: Model) -> pd.DataFrame:
    local = replace(model, backend=partition_backend(model.device))
    found: pd.DataFrame = local.transform(frame, as_frame=True).set_axis(index_of(frame))
    return found


def _token(model: Model) -> str:
    from dask.base import tokenize

    return str(tokenize(model.manifest, model.device, str(model.rules)))
