"""A model loaded from its directory: features and estimator, ready to predict on any machine."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.artifact import ArtifactReader
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.errors import ArtifactError, ConfigError, DataError, PredictionWarning
from gpupipe.features.fitted import FittedFeatures
from gpupipe.models import FittedModel, Prediction, load_fitted
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.feature_files import read_features
from gpupipe.pipeline.id_columns import IdColumns, copy_columns, require_free_names
from gpupipe.pipeline.input_source import check_reading, event_source, main_source
from gpupipe.pipeline.model_folder import model_folder
from gpupipe.pipeline.model_inference import encode_rows, predict_rows
from gpupipe.pipeline.model_pickle import files_of, load_files
from gpupipe.pipeline.model_rows import RowsToPredict, entities_to_predict, rows_to_predict
from gpupipe.pipeline.model_summary import model_html, model_text
from gpupipe.pipeline.parity.replay import verify_model
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.prediction_report import PredictionReport
from gpupipe.pipeline.prediction_table import (
    class_probabilities,
    prediction_table,
    prediction_values,
)
from gpupipe.pipeline.rules import ServedRules
from gpupipe.pipeline.served_events import NO_EVENTS, ServedEvents
from gpupipe.pipeline.soundness import (
    check_agreement,
    read_decision,
    read_goal,
    read_importances,
)
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.user_code import read_kernels
from gpupipe.readers.settings import TableSource
from gpupipe.table.frames import frame_to_arrow

if TYPE_CHECKING:
    import pandas as pd

Array = Any


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model with its features, as `gpupipe.load_model` returns it.

    Models can be pickled, to other machines too: a pickle holds the files of the model directory, which are written to
    a temporary directory and checked again when it is loaded.

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
        The content of manifest.json.
    folder : Path
        The model directory.
    rules : tuple of ServedRules
        The rules of ``data:`` that tables to predict must keep.
    engine : {"numpy", "numba"}, optional
        The host's interpreter of the features where rows come in pieces; None: chosen by the number of rows.
    events : ServedEvents
        How the further tables are read.
    device : {"auto", "cpu", "gpu"}
        The device that was asked for; an unpickled model asks for the same.
    warns : bool
        Whether a prediction issues a `gpupipe.errors.PredictionWarning` for each of the alarms of its report.

    Examples
    --------
    >>> model = load_model("runs/churn")  # doctest: +SKIP
    >>> model.predict({"tenure": 3, "Contract": "One year", "MonthlyCharges": 29.9})  # doctest: +SKIP
    array(['No'], dtype='<U3')
    >>> model.last_prediction_report.columns[0].n_null  # doctest: +SKIP
    0
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
    device: str = "auto"
    warns: bool = True
    # Of each thread: a server predicts in several.
    _last: threading.local = field(init=False, default_factory=threading.local)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The input columns that a table must have."""
        return self.features.inputs

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of `transform`."""
        return tuple(self.features.names)

    @property
    def importances(self) -> pd.DataFrame:
        """Permutation importances of the input columns, as the run measured them on rows that it had not trained on.

        A frame with the columns ``column``, ``importance`` (the mean loss of the metric when the column is shuffled)
        and ``std``, most important first; of tables wider than 100 columns, those that the model relies on most.

        Raises
        ------
        ArtifactError
            If the model holds none.
        """
        found = read_importances(self.manifest.get("importances"))
        if found is None:
            fix = "run its configuration again with evaluate.importance on; they are measured against a target"
            raise ArtifactError("no importances were recorded in this model", where=str(self.folder), fix=fix)
        return found.to_frame()

    @property
    def last_prediction_report(self) -> PredictionReport | None:
        """Nulls, unseen levels and values outside the training range in the rows of the last prediction.

        That is the last `predict`, `predict_proba`, `predict_table` or `transform` of this thread; None before the
        first.
        """
        return getattr(self._last, "report", None)

    def predict(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Array:
        """Return one prediction a row: a label, a number, a cluster, or an embedding; shape (n,) or (n, k).

        Parameters
        ----------
        data : frame, dict, list of dict, pandas.Series, or path
            Rows with the model's input columns, in any order; other columns are ignored. A frame is one of pandas,
            polars, cuDF, DuckDB or pyarrow, anything with ``__arrow_c_stream__``, or a dict of sequences. A dict of
            single values and a Series whose index names the columns are one row. In a list of dicts, a column that some
            rows lack is null there. Where a feature is computed from the history of a row in this table, the history
            must be in it.
        tables : mapping of str to frame or path, optional
            The further tables that features are computed from, by their names in the configuration.
        as_of : str, date or datetime, optional
            The cut-off, as an ISO date or time if it is text, instead of every date that the configuration named as
            one. UTC where it has no time zone.

        Raises
        ------
        SchemaError
            If a column is absent or holds values of another kind, or rules of the training (``data:``) are broken; rows
            and columns are named. Rules that only warn are in ``backend.take_remarks()``.
        ConfigError
            If a further table is absent or unknown, or `as_of` is not a time.
        DataError
            If `data` is of a type that is not a table, or cannot be read.

        Warns
        -----
        PredictionWarning
            If no row of a column is like the training rows; the counts are in `last_prediction_report`.
        """
        return prediction_values(
            self._predict(rows_to_predict(self, data, tables, as_of)), self.goal, self.decision.threshold
        )

    def predict_proba(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Array:
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
        return class_probabilities(self._predict(rows_to_predict(self, data, tables, as_of)).probability)

    def predict_table(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        keep: Sequence[str] = (),
    ) -> pa.Table:
        """Return a table: ``prediction``, and for each class ``probability_LABEL`` (`embedding_i` for embeddings).

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        keep : sequence of str
            Columns of `data` to copy before the predictions, unchanged: names and globs.

        Raises
        ------
        SchemaError, ConfigError
            As `predict`; also if `data` lacks a column of `keep`, or one has the name of an output column.
        """
        if not isinstance(data, str | Path | TableSource) and not hasattr(data, "iloc") and keep:
            data = frame_to_arrow(data)  # a stream can be read once
        copied = copy_columns(data, keep, self.source_of) if keep else pa.table({})
        prediction = self._predict(rows_to_predict(self, data, tables, as_of))
        table = prediction_table(prediction, self.goal, self.decision.threshold)
        require_free_names(IdColumns(kept=tuple(copied.column_names)), table.column_names)
        names = [*copied.column_names, *table.column_names]
        return pa.table([*copied.columns, *table.columns], names=names)

    def transform(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        as_frame: bool = False,
    ) -> Array:
        """Return the features that the estimator sees, float32, shape (n, len(feature_names)), column-major.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        as_frame : bool
            Return a pandas.DataFrame with `feature_names` as its columns. Otherwise the array is NumPy's, or CuPy's
            where the model's features are computed on a GPU.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `predict`.
        """
        X = self._transform(rows_to_predict(self, data, tables, as_of))
        if not as_frame:
            return X
        import pandas as pd

        return pd.DataFrame(self.backend.to_host(X.T).T, columns=list(self.feature_names))

    def predict_entities(self, tables: Mapping[str, Any], as_of: str | date | datetime) -> pa.Table:
        """Return the predictions of every key that has an event before a date: one row for each.

        This is for a model whose rows were made of events (``source: {entities: ...}``).

        Parameters
        ----------
        tables : mapping of str to DataFrame, Table or path
            The event tables, by the names that the configuration gave them.
        as_of : str, date or datetime
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
        rows = entities_to_predict(self, tables, as_of)
        found = prediction_table(self._predict(rows), self.goal, self.decision.threshold)
        keys = rows.arrow
        return pa.table([*keys.columns, *found.columns], names=[*keys.column_names, *found.column_names])

    def verify(self) -> Verification:
        """Check every file again, replay here what the training side recorded, and return how far they are apart.

        Raises
        ------
        ArtifactError
            If a file is damaged, or nothing was recorded: a model of an older version.
        """
        return verify_model(self)

    def _predict(self, rows: RowsToPredict) -> Prediction:
        prediction, report = predict_rows(self, rows)
        self._keep_report(report)
        return prediction

    def _transform(self, rows: RowsToPredict) -> Array:
        table, report = encode_rows(self, rows)
        X = self.features.transform(table, self.backend, self.engine)
        self._keep_report(report)
        return X

    def _keep_report(self, report: PredictionReport) -> None:
        """Keep the report of a prediction, and issue its alarms as warnings of the line that called the model."""
        self._last.report = report
        if self.warns:
            for alarm in report.alarms:
                warnings.warn(alarm, PredictionWarning, stacklevel=4)

    def source_of(self, path: str) -> TableSource:
        """Return the source that reads a file, glob, folder or URL of rows to score as the training table was read."""
        return main_source(path, self.manifest["reading"], self.features, self.rules)

    def event_source(self, name: str, path: str) -> TableSource:
        """Return the source that reads the event table `name` from another file, glob, folder or URL."""
        return event_source(path, self.events, self.manifest["reading"], self.features, name)

    def __reduce__(self) -> tuple[Any, ...]:
        files = files_of(self.folder, self.manifest)
        changed = {"rules": self.rules, "engine": self.engine, "warns": self.warns}
        return _unpickled, (files, self.device, bool(self.manifest.get("kernels")), changed)

    def __repr__(self) -> str:
        return model_text(self)

    def _repr_html_(self) -> str:
        return model_html(self)


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
    ConfigError
        If `path` is of another type.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"expected the path of a run directory or a model directory; got {type(path).__name__}",
            fix="gpupipe.load_model(run.path), or run.model, which is loaded already",
        )
    reader = ArtifactReader(model_folder(path))
    # The backend comes before any library that computes is loaded: it says how its threads wait.
    return replace(open_model(reader, choose(device), allow_code), device=device)


def open_model(reader: ArtifactReader, backend: Backend, allow_code: bool) -> Model:
    """Return the model of a directory that was checked, on a backend that was chosen; see `load_model`."""
    folder, manifest = reader.folder, reader.manifest
    try:
        features = read_features(reader, read_kernels(reader, allow_code))
        goal = read_goal(manifest)
        decision = read_decision(manifest["decision"], goal)
        read_importances(manifest.get("importances"))
        rules = tuple(map(ServedRules.from_json, manifest.get("data", ())))
        events = ServedEvents.from_json(manifest["reading"].get("events"), features.derivation)
        check_reading(manifest["reading"], features, events)
        estimator = load_fitted(folder, manifest["estimator"])
        check_agreement(goal, features.features, estimator)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"the model is not one that this version reads: {error}", where=str(folder), fix="export it again"
        ) from error
    return Model(goal, features, estimator, decision, backend, manifest, folder, rules, events=events)


def _unpickled(files: Mapping[str, bytes], device: str, allow_code: bool, changed: Mapping[str, Any]) -> Model:
    return load_files(files, lambda folder: replace(load_model(folder, device, allow_code=allow_code), **changed))
