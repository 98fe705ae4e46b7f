"""Feature matrices and tensors of a configuration, part of the Python interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from gpupipe.backends import choose
from gpupipe.backends.cpu.memory import copy_of
from gpupipe.config import Config
from gpupipe.features.ops.bag_ids import bag_columns, bags_of
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.pipeline.api.arguments import WarningListener, python_errors, require_choice, with_client, with_data
from gpupipe.tasks import View
from gpupipe.tensors.batch import Metadata, TensorBatch
from gpupipe.tensors.libraries import LIBRARIES
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import fit_view
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import folds_of, open_job
from gpupipe.typing import Array

TensorView = Literal["dense", "embedding"]


class FeatureAccess:
    """Base class of `gpupipe.Pipeline` with access to the features of its rows.

    Attributes
    ----------
    config : Config
    """

    config: Config

    def features(
        self, data: Any = None, view: View = "dense", *, tables: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Fit the features to all rows, and return the feature matrix and the target.

        Parameters
        ----------
        data : frame, dict of columns, str, Path or list of paths, optional
            Rows instead of the configuration's source. All other settings apply to them.
        view : {"dense", "codes", "embedding"}
            Encoding of the columns. "dense", for linear models: scaled numbers, one-hot categories, no nulls. "codes",
            for trees: integer codes and nulls. "embedding", for neural networks: scaled numbers, and integer codes to
            embed.
        tables : dict of str to the same, optional
            Further tables instead of the configuration's, by name.

        Returns
        -------
        X : array of float32, shape (n_rows, n_features), column-major
            A NumPy array, or a CuPy array on a GPU. Rows without a target are dropped. Target encodings are
            cross-fitted, so no row is encoded with its own target. On the workers of a client (a Dask DataFrame, or
            ``cluster=client``) a Dask array of such arrays, in the order of the rows.
        y : array of float64, shape (n_rows,), or None
            Class codes or numbers, a NumPy array; None without a target. With the chunks of `X` if that is a Dask
            array.

        Raises
        ------
        GpupipeError
            A subclass for each reason, see `gpupipe.errors`.

        Examples
        --------
        >>> import gpupipe as gp
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [31, 45, 27, 52], "plan": ["a", "b", "a", None], "left": [0, 1, 0, 1]})
        >>> pipeline = gp.Pipeline(frame, target="left")
        >>> X, y = pipeline.features()
        >>> X.shape, X.dtype.name, y.tolist()
        ((4, 4), 'float32', [0.0, 1.0, 0.0, 1.0])
        >>> pipeline.features(view="codes")[0].shape
        (4, 2)
        """
        import numpy as np

        require_choice("view", view, get_args(View))
        config = with_client(with_data(self.config, data, tables))
        listener = WarningListener(config)
        with python_errors(config):
            if config.cluster.client is not None:
                from gpupipe.pipeline.api.dask_features import features_on_workers

                return features_on_workers(config, view, listener)
            backend = choose(config.device, config.device_options)
            job = open_job(config, backend, Timeline([listener]))
            rows = job.rows(np.ones(job.table.n_rows, bool))
            fitted, X = fit_view(rows, view, config.features, backend)
            for text in fitted.warnings:
                listener.warn(text)
            return X, job.y

    def tensors(
        self,
        library: str | None = None,
        view: TensorView = "dense",
        copy: bool = False,
        *,
        data: Any = None,
        tables: Mapping[str, Any] | None = None,
    ) -> tuple[TensorBatch[Array], TensorBatch[Array]]:
        """Return the training and test rows of the split as tensors, for custom training loops.

        Features are fitted to the training rows only. With cross-validation, the rows are those of the first fold.

        Parameters
        ----------
        library : {"torch", "jax", "tensorflow"}, optional
            The library of the tensors. Default: NumPy arrays, or CuPy arrays on a GPU. The hand-over is zero-copy,
            except to TensorFlow, which needs ``copy=True`` because it supports only row-major memory.
        view : {"dense", "embedding"}
            "dense": all columns as scaled numbers without nulls. "embedding": scaled numbers, and integer codes of the
            categories to embed.
        copy : bool
            Copy each array into memory of the library.
        data : frame, dict of columns, str, Path or list of paths, optional
            Rows instead of the configuration's source. All other settings apply to them.
        tables : dict of str to the same, optional
            Further tables instead of the configuration's, by name.

        Returns
        -------
        train, test : TensorBatch
            With ``features`` (float32), ``ids`` (integer codes by column), ``bags`` (those of the op ``bag_ids``),
            ``target``, and ``metadata`` (names, vocabularies and labels).

        Raises
        ------
        GpupipeError
            A subclass for each reason, see `gpupipe.errors`.

        Examples
        --------
        >>> import gpupipe as gp
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": range(100), "plan": ["a", "b"] * 50, "left": [0, 1] * 50})
        >>> train, test = gp.Pipeline(frame, target="left").tensors()
        >>> train.features.shape, train.features.dtype.name, test.target.shape
        ((80, 3), 'float32', (20,))
        """
        require_choice("view", view, get_args(TensorView))
        if library is not None:
            require_choice("library", library, tuple(LIBRARIES))
        config = with_data(self.config, data, tables)
        with python_errors(config):
            # 64-bit integers are disabled in JAX by default.
            train, test = make_tensors(config, view, "int32" if library == "jax" else "int64")
            return (train, test) if library is None else (train.to(library, copy), test.to(library, copy))


def make_tensors(
    config: Config, view: TensorView, codes: str = "int64"
) -> tuple[TensorBatch[Array], TensorBatch[Array]]:
    """Return the training and test rows of the split; features are fitted to the training rows only.

    With cross-validation, the first fold is used. Each batch is one allocation on the backend, and its target another;
    class codes have the dtype `codes`.
    """
    backend = choose(config.device, config.device_options)
    listener = WarningListener(config)
    job = open_job(config, backend, Timeline([listener]))
    fold = folds_of(job)[0]
    features, X = fit_view(job.rows(fold.train), view, config.features, backend)
    for text in features.warnings:
        listener.warn(text)
    X_test = write_matrix(job.table.take(fold.test, backend), features, backend)
    train = _batch(X, features, job, fold.train, view, codes)
    return train, _batch(X_test, features, job, fold.test, view, codes)


def _batch(
    X: Array, features: FittedFeatures, job: Job, mask: Array, view: TensorView, codes: str
) -> TensorBatch[Array]:
    ids = {f.name: f.n_codes for f in features.features if f.n_codes} if view == "embedding" else {}
    levels = {state["column"]: tuple(state["levels"]) for state in features.states if state["op"] == "Categorify"}
    numbered = bag_columns(features.derivation)
    metadata = Metadata(
        names=tuple(name for name in features.names if name not in ids),
        vocabularies={name: levels[name] for name in ids if name in levels}
        | {bag: tuple(op.known_levels(name)) for bag, (op, name) in numbered.items()},
        bag_cardinalities={bag: op.n_ids(name) for bag, (op, name) in numbered.items()},
        labels=tuple(own.labels for own in job.goal.targets if own.labels) or job.goal.labels,
        task=job.goal.task,
        targets=job.goal.names if job.goal.targets else (),
    )
    weight = None if job.weights is None else job.backend.to_device(job.weights[mask].astype(np.float32))
    batch = TensorBatch.of_matrix(X, ids, target=_target(job, mask, codes), weight=weight, metadata=metadata)
    return replace(batch, bags=bags_of(features.derivation, job.table.texts, job.backend, mask))


def _target(job: Job, mask: Array, codes: str) -> Array | None:
    y = job.target(mask)
    if y is None:
        return None
    return job.backend.to_device(copy_of(np.asarray(y, codes if job.goal.has_classes else np.float32)))
