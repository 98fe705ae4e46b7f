"""A model loaded from its directory: features and estimator, ready to predict on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.artifact import ArtifactReader
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.backends.splitting import by_parts
from gpupipe.errors import ArtifactError, ConfigError, DataError
from gpupipe.features.fitted import FittedFeatures
from gpupipe.metrics import predicted_labels
from gpupipe.models import CLASSIFICATION, FittedModel, Prediction, load_fitted
from gpupipe.models.fitted_device import joined, matrix_on_host
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.feature_files import read_features
from gpupipe.pipeline.parity.replay import verify_model
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.rules import ServedRules, enforce_served
from gpupipe.pipeline.served_events import NO_EVENTS, ServedEvents
from gpupipe.pipeline.soundness import (
    check_agreement,
    read_decision,
    read_goal,
)
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.user_code import read_kernels
from gpupipe.readers.files import mask
from gpupipe.readers.read import plain_arrow, read_arrow
from gpupipe.readers.settings import CsvSettings, TableSource
from gpupipe.table.frames import frame_to_arrow
from gpupipe.table.spans import time_us

Array = Any
BATCH_ROWS = 1_048_576  # rows whose matrix is in memory at once


@dataclass(frozen=True)
class Model:
    """A trained model with its features, as `gpupipe.load_model` returns it.

    Attributes
    ----------
    goal : Goal
        Task, target and class labels.
    features : FittedFeatures
    estimator : FittedModel
    decision : Decision
        Calibration and threshold.
    backend : Backend
    manifest : dict
        Everything that the directory says of itself.
    folder : Path
        The model directory.
    rules : tuple of ServedRules
        What a table must be to be predicted.
    engine : {"numpy", "numba"}, optional
        The host's interpreter of the features where rows come in pieces; None: the one that suits so many rows.
    events : ServedEvents
        How the further tables are read.
    """

    goal: Goal
    features: FittedFeatures
    estimator: FittedModel
    decision: Decision
    backend: Backend
    manifest: dict[str, Any]
    folder: Path
    rules: tuple[ServedRules, ...] = ()
    engine: str | None = None
    events: ServedEvents = NO_EVENTS

    @property
    def inputs(self) -> tuple[str, ...]:
        """The input columns that a table must have."""
        return self.features.inputs

    def predict(self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None) -> Array:
        """Return one prediction a row: a label, a number, a cluster, or an embedding; shape (n,) or (n, k).

        Parameters
        ----------
        data : pandas.DataFrame, pyarrow.Table, or path
            With the model's input columns, in any order; others are ignored. Where a feature is made of the history of
            a row in this very table, the history must be in it.
        tables : mapping of str to DataFrame, Table or path, optional
            The further tables that features are made of, by the names that the configuration gave them.
        as_of : str, optional
            An ISO date or time, in place of every date that the configuration named as a cut-off: what is known now.

        Raises
        ------
        SchemaError
            If a column is absent or holds values of another kind, or rules of the training (``data:``) are broken; rows
            and columns are named. Rules that only warn are among ``backend.take_remarks()``.
        ConfigError
            If a further table is absent.
        """
        prediction = self._predict(data, tables, as_of)
        if prediction.probability is not None:
            chosen = predicted_labels(self.goal.task, prediction.probability, self.decision.threshold)
            return np.array(self.goal.labels)[chosen]
        return next(v for v in (prediction.value, prediction.label, prediction.embedding) if v is not None)

    def predict_proba(self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None) -> Array:
        """Return the probability of each class, float64, shape (n, k), in the order of ``goal.labels``.

        Parameters are those of `predict`.

        Raises
        ------
        SchemaError
            As `predict`.
        DataError
            If the model does not classify.
        """
        if not self.goal.labels:
            raise DataError(f"a {self.goal.task} model has no probabilities", fix="use predict")
        return _columns(self._predict(data, tables, as_of).probability)

    def predict_table(self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None) -> pa.Table:
        """Return a table: ``prediction``, and for each class ``probability_LABEL`` (`embedding_i` for embeddings).

        Parameters are those of `predict`.
        """
        prediction = self._predict(data, tables, as_of)
        return prediction_table(prediction, self.goal, self.decision.threshold)

    def predict_entities(self, tables: Mapping[str, Any], as_of: str) -> pa.Table:
        """Return the predictions of every key that has an event before a date: one row for each.

        This is for a model whose rows were made of events (``source: {entities: ...}``).

        Parameters
        ----------
        tables : mapping of str to DataFrame, Table or path
            The event tables, by the names that the configuration gave them.
        as_of : str
            The cut-off, an ISO date or time: features see the events before it.

        Returns
        -------
        pyarrow.Table
            The keys and ``as_of``, then the columns of `predict_table`; ordered by key.

        Raises
        ------
        ConfigError
            If the rows of the training were not made of events alone, or a table is absent.
        DataError
            If no key has an event before `as_of`.
        """
        self.events.require_entities(self.inputs)
        now, events = time_us(as_of), self._events(tables, for_rows=True)
        rows = self.events.rows(events, now)
        found = prediction_table(self._predict_rows(rows, events, now), self.goal, self.decision.threshold)
        return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **_columns_of(found)})

    def verify(self) -> Verification:
        """Check every file again, replay here what the training side recorded, and return how far they are apart.

        Raises
        ------
        ArtifactError
            If a file is damaged, or nothing was recorded: a model of an older version.
        """
        return verify_model(self)

    def _predict(self, data: Any, tables: Mapping[str, Any] | None, as_of: str | None) -> Prediction:
        arrow = self._arrow(data, list(dict.fromkeys([*self.inputs, *(each.column for each in self.rules)])))
        label = mask(str(data)) if isinstance(data, (str, Path)) else "the table that was given"
        for warning in enforce_served(arrow, self.rules, self.backend, label):
            self.backend.remark(warning)
        now = None if as_of is None else time_us(as_of)
        return self._predict_rows(self.events.with_cut_off(arrow, now, self.inputs), self._events(tables or {}), now)

    def _predict_rows(self, arrow: pa.Table, events: Mapping[str, pa.Table], now: int | None) -> Prediction:
        if self.features.derivation is not None:  # a history must not be cut
            return self._predict_batch(arrow, events, now)

        def predict(start: int, stop: int) -> Prediction:
            return self._predict_batch(arrow.slice(start, stop - start), events, now)

        return joined(by_parts(predict, arrow.num_rows, self.backend, "predict", BATCH_ROWS))

    def _events(self, tables: Mapping[str, Any], *, for_rows: bool = False) -> dict[str, pa.Table]:
        known = self.events.tables
        if strange := [name for name in tables if name not in known]:
            hint = f"it reads {', '.join(known)}" if known else "it reads none but the rows to score"
            raise ConfigError(f"the model reads no further table {strange[0]!r}", fix=hint)
        needed = self.events.columns(self.features.derivation, for_rows=for_rows)
        self.events.require(list(tables), needed)
        return {name: self.events.read(name, tables[name], columns) for name, columns in needed.items()}

    def _arrow(self, data: Any, columns: Sequence[str]) -> pa.Table:
        if isinstance(data, (str, Path)):
            source = TableSource(path=str(data), csv=self.manifest["reading"]["csv"])
            return read_arrow(source, may_be_empty=True).table
        if hasattr(data, "iloc"):
            data = data[[name for name in columns if name in data.columns]]
        return as_arrow(data)

    def _predict_batch(self, arrow: pa.Table, events: Mapping[str, pa.Table], as_of: int | None) -> Prediction:
        table = self.features.encode(arrow, self.backend, events, as_of)  # the columns must be right, rows or none
        if arrow.num_rows == 0:
            return _nothing(self.goal)
        X = self.features.transform(table, self.backend, self.engine)
        X = matrix_on_host(X, self.backend)  # the estimator is the host's
        parts = by_parts(lambda a, b: self._estimate(X[a:b]), X.shape[0], self.backend, "predict")
        return self.decision.apply(joined(parts))

    def _estimate(self, X: Array) -> Prediction:
        """Return what the estimator says of `X`; that a file was sound does not mean that its numbers fit together."""
        try:
            return self.estimator.predict(X)
        except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            raise ArtifactError(
                f"the estimator fails on rows that suit its features: {type(error).__name__}: {error}",
                where=str(self.folder),
                fix="`gpupipe verify` says whether it gives what it gave where it was trained",
            ) from error


def load_model(path: str | Path, device: str = "auto", *, allow_code: bool = False) -> Model:
    """Load a model.

    Parameters
    ----------
    path : str or Path
        A model directory, or a run directory that holds one.
    device : {"auto", "cpu", "gpu"}
    allow_code : bool
        Whether the text of users' kernels in the model may be compiled and run. A model without any needs no leave.

    Returns
    -------
    Model

    Raises
    ------
    ArtifactError
        If a file is absent, damaged or altered (it is named), the format is not one that this version reads, or the
        model holds code that was not allowed.
    DeviceError
        If a GPU is demanded and cannot be had.
    """
    folder = Path(path)
    if (folder / "model" / "manifest.json").is_file():
        folder = folder / "model"
        if folder.is_symlink():
            fix = "name the directory that it leads to, if that is what you want"
            raise ArtifactError("the model is a link out of its run directory", where=str(folder), fix=fix)
    reader = ArtifactReader(folder)
    # The backend comes before any library that computes is loaded: it says how its threads wait.
    return open_model(reader, choose(device), allow_code)


def open_model(reader: ArtifactReader, backend: Backend, allow_code: bool) -> Model:
    """Return the model of a directory that was checked, on a backend that was chosen; see `load_model`."""
    folder, manifest = reader.folder, reader.manifest
    try:
        features = read_features(reader, read_kernels(reader, allow_code))
        goal = read_goal(manifest)
        decision = read_decision(manifest["decision"], goal)
        CsvSettings.model_validate(manifest["reading"]["csv"])
        rules = tuple(map(ServedRules.from_json, manifest.get("data", ())))
        events = ServedEvents.from_json(manifest["reading"].get("events"), features.derivation)
        estimator = load_fitted(folder, manifest["estimator"])
        check_agreement(goal, features.features, estimator)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"the model is not one that this version reads: {error}", where=str(folder), fix="export it again"
        ) from error
    return Model(goal, features, estimator, decision, backend, manifest, folder, rules, events=events)


def prediction_table(prediction: Prediction, goal: Goal, threshold: float) -> pa.Table:
    """Return predictions as a table, in the words of the target."""
    if prediction.probability is not None:
        probability = _columns(prediction.probability)
        chosen = predicted_labels(goal.task, prediction.probability, threshold)
        columns = {"prediction": pa.array(goal.labels).take(pa.array(chosen))}
        return pa.table(
            columns | {f"probability_{label}": p for label, p in zip(goal.labels, probability.T, strict=True)}
        )
    if prediction.embedding is not None:
        return pa.table({f"embedding_{i}": column for i, column in enumerate(prediction.embedding.T)})
    if prediction.label is not None:
        return pa.table({"prediction": prediction.label, "distance": prediction.distance})
    return pa.table({"prediction": prediction.value})


def _columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _columns(probability: Array) -> Array:
    return np.column_stack([1.0 - probability, probability]) if probability.ndim == 1 else probability


def as_arrow(data: Any) -> pa.Table:
    """Return a frame as the readers would deliver it: the same nulls, the same types; see `frame_to_arrow`."""
    return plain_arrow(frame_to_arrow(data))


def _nothing(goal: Goal) -> Prediction:
    """Return the prediction of no rows: estimators refuse an empty matrix."""
    if goal.task in CLASSIFICATION:
        return Prediction(goal.task, probability=np.empty(0 if goal.task == "binary" else (0, goal.n_classes)))
    if goal.task == "regression":
        return Prediction(goal.task, value=np.empty(0))
    if goal.task == "clustering":
        return Prediction(goal.task, label=np.empty(0, np.int32), distance=np.empty(0))
    return Prediction(goal.task, embedding=np.empty((0, 0), np.float32))
