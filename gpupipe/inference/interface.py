"""`LoadedModel`: the interface shared by `gpupipe.Model` and `gpupipe.UntrustedModel`."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.artifact import ArtifactReader
from gpupipe.backends.base import Backend
from gpupipe.errors import ArtifactError
from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.explanation.outputs import require_explainable
from gpupipe.inference.explanation.tables import reason_table
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.prediction.events import NO_EVENTS, ServedEvents
from gpupipe.inference.prediction.id_columns import IdColumns, copy_columns, require_free_names
from gpupipe.inference.prediction.input_source import event_source, main_source
from gpupipe.inference.prediction.prediction_arrays import prediction_values
from gpupipe.inference.prediction.prediction_report import PredictionReport
from gpupipe.inference.prediction.prediction_table import prediction_table
from gpupipe.inference.prediction.rows import RowsToPredict, entities_to_predict, rows_to_predict
from gpupipe.inference.summary import model_html, model_text
from gpupipe.inference.uncertainty import UncertainPredictions
from gpupipe.io.settings import TableSource
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.part_checks import read_importances
from gpupipe.models import Prediction
from gpupipe.rules.model_rules import ServedRules
from gpupipe.table.frames import frame_to_arrow, is_dask_frame
from gpupipe.typing import Array
from gpupipe.user_warnings import PredictionWarning, warn_user

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.inference.prediction.few_rows import FewRowsEncoder
    from gpupipe.inference.untrusted.description import DescribedFeatures


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedModel(UncertainPredictions):
    """A loaded model, ready to predict.

    `gpupipe.Model` computes in this process, `gpupipe.UntrustedModel` in a child process.

    Attributes
    ----------
    features : FittedFeatures | DescribedFeatures
        Input columns and feature names.
    manifest : dict
        The content of manifest.json, or the entries of it that predictions need.
    goal, decision, backend, folder, rules, events, warns, trust
        As in `gpupipe.Model`. Warnings raised while computing are in ``backend.take_notes()``.
    """

    goal: Goal
    features: FittedFeatures | DescribedFeatures
    decision: Decision
    backend: Backend
    manifest: dict[str, Any]
    folder: Path
    rules: tuple[ServedRules, ...] = ()
    events: ServedEvents = NO_EVENTS
    warns: bool = True
    trust: tuple[str, ...] = ()
    # Per thread, because servers predict in several threads.
    _last: threading.local = field(init=False, default_factory=threading.local)

    def open_files(self) -> ArtifactReader:
        """Return the model directory, checked again."""
        return ArtifactReader(self.folder, self.trust)

    @property
    def few_rows(self) -> FewRowsEncoder | None:
        """The encoder of few rows from memory; None if tables are to read them too."""
        return None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns that a table must have."""
        return self.features.inputs

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that `transform` returns."""
        return tuple(self.features.names)

    @property
    def importances(self) -> pd.DataFrame:
        """Permutation importances of the input columns, measured by the run on rows that the model was not trained on.

        A frame with the columns ``column``, ``importance`` (the mean loss of the metric when the column is shuffled)
        and ``std``, most important first. For tables with more than 100 columns, it has the columns that the model
        uses most.

        Raises
        ------
        ArtifactError
            If the run measured no importances.
        """
        found = read_importances(self.manifest.get("importances"))
        if found is None:
            fix = "run its configuration again with evaluate.importance on; importances need a target"
            raise ArtifactError("this model has no recorded importances", where=str(self.folder), fix=fix)
        return found.to_frame()

    @property
    def last_prediction_report(self) -> PredictionReport | None:
        """Nulls, unseen levels and values outside the training range in the most recently predicted rows.

        Covers the last call of `predict`, `predict_proba`, `predict_table`, `predict_entities` or `transform` in this
        thread; None before the first.
        """
        return getattr(self._last, "report", None)

    def predict(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Any:
        """Return one prediction per row.

        Parameters
        ----------
        data : frame, dict, list of dict, pandas.Series, or path
            Rows with the model's input columns, in any order; other columns are ignored. A frame is a pandas, polars,
            cuDF, DuckDB or pyarrow table, any object with ``__arrow_c_stream__``, or a dict of sequences. A dict of
            scalars, or a Series indexed by column name, is one row. Keys that are missing from some dicts of a list are
            null. If features are computed from the history of a row in this table, the table must contain that history.
            The predictions of a Dask DataFrame are lazy and keep its partitions and divisions.
        tables : mapping of str to frame or path, optional
            The further tables that features are computed from, by their names in the configuration.
        as_of : str, date or datetime, optional
            Cut-off that replaces all cut-off dates in the configuration: a date or datetime, or ISO text. Without a
            time zone it is UTC.

        Returns
        -------
        array, shape (n,) or (n, k)
            Class labels; float64 values of a regression; int32 clusters; or float32 embeddings with k components. The
            quantiles, or the labels or values of several targets, are the columns of a 2-D array. For a Dask DataFrame
            a Dask Series ``prediction``, or a DataFrame if there are several columns, with the index of the rows.

        Raises
        ------
        SchemaError
            If a column is missing or has values of another kind, or a rule of ``data:`` is violated; the message names
            rows and columns. Rules with ``otherwise: warn`` add to ``backend.take_notes()`` instead.
        ConfigError
            If a further table is missing or unknown, or `as_of` is not a time.
        DataError
            If `data` is not a table or a path, or cannot be read.

        Warns
        -----
        PredictionWarning
            If more rows have a level unseen in training than those that occur there once lead to expect, or no value of
            a column is like the training rows; `last_prediction_report` has the counts.
        """
        if is_dask_frame(data):
            from gpupipe.inference.dask_predictions import predict_frame

            return predict_frame(self, data, tables, as_of)
        return prediction_values(self._predict(rows_to_predict(self, data, tables, as_of)), self.goal, self.decision)

    def predict_table(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        keep: Sequence[str] = (),
        explain: int = 0,
    ) -> pa.Table:
        """Return predictions as a table.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        keep : sequence of str
            Columns of `data` (names and globs) to copy unchanged in front of the predictions.
        explain : int
            Number of the strongest contributions to each prediction to return, of `explain`.

        Returns
        -------
        pyarrow.Table
            One row per input row: the columns of `keep`, then ``prediction`` and one ``probability_LABEL`` per class;
            with ``evaluate.intervals``, ``lower`` and ``upper``, or one boolean ``set_LABEL`` per class; for clusters
            ``prediction`` and ``distance``, for embeddings ``embedding_0`` to ``embedding_{k-1}``. With several
            targets, these columns for each: ``prediction_TARGET``, ``probability_TARGET_LABEL``. With `explain`, also
            ``reason_1``, the input column that contributes most, ``reason_1_value``, its value as text,
            ``reason_1_contribution``, and so on: to the predicted class of several, or to the quantile next to the
            median. For a Dask DataFrame a Dask DataFrame with its index.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `predict`; also if `data` lacks a column of `keep`, or such a column has the name of an output column; or
            as `explain`, if contributions are requested.
        """
        if explain:
            require_explainable(self.goal)
        if is_dask_frame(data):
            from gpupipe.inference.dask_predictions import prediction_frame

            return prediction_frame(self, data, tables, as_of, keep, explain)
        if not isinstance(data, str | Path | TableSource) and not hasattr(data, "iloc") and keep:
            data = frame_to_arrow(data)  # a stream can be read once
        copied = copy_columns(data, keep, self.source_of) if keep else pa.table({})
        rows = rows_to_predict(self, data, tables, as_of)
        prediction = self._predict(rows)
        table = prediction_table(prediction, self.goal, self.decision)
        if explain:
            found = self._explanation_of(rows, interactions=False)
            reasons = reason_table(found, explain, rows.arrow, prediction, self.goal, self.decision)
            names = [*table.column_names, *reasons.column_names]
            table = pa.table([*table.columns, *reasons.columns], names=names)
        require_free_names(IdColumns(kept=tuple(copied.column_names)), table.column_names)
        names = [*copied.column_names, *table.column_names]
        return pa.table([*copied.columns, *table.columns], names=names)

    def explain(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        interactions: bool = False,
    ) -> Explanation:
        """Return how much each input column contributes to each prediction.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        interactions : bool
            Compute the interactions of all pairs of columns as well.

        Returns
        -------
        Explanation
            Exact Shapley values for trees and linear models, approximations for other models; the base and the
            contributions of a row always sum to its margin.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `predict`; ConfigError also if interactions are requested of a model that does not consist of trees,
            DataError if the model predicts clusters or an embedding.
        """
        require_explainable(self.goal)
        return self._explanation_of(rows_to_predict(self, data, tables, as_of), interactions)

    def transform(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        as_frame: bool = False,
    ) -> Any:
        """Return the feature matrix that the estimator predicts from.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        as_frame : bool
            Return a pandas.DataFrame with `feature_names` as its columns instead of an array.

        Returns
        -------
        array of float32, shape (n, len(feature_names)), or pandas.DataFrame
            The array is column-major: a CuPy array if features are computed on a GPU, else a NumPy array. For a Dask
            DataFrame a Dask array or DataFrame.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `predict`.
        """
        if is_dask_frame(data):
            from gpupipe.inference.dask_predictions import feature_frame

            return feature_frame(self, data, tables, as_of, as_frame)
        X = self._transform(rows_to_predict(self, data, tables, as_of))
        if not as_frame:
            return X
        import pandas as pd

        return pd.DataFrame(self.backend.to_host(X.T).T, columns=list(self.feature_names))

    def predict_entities(self, tables: Mapping[str, Any], as_of: str | date | datetime) -> pa.Table:
        """Return one prediction for each entity key that has an event before the cut-off.

        Only for models whose training rows were built from events (``source: {entities: ...}``).

        Parameters
        ----------
        tables : mapping of str to frame or path
            The event tables, by their names in the configuration.
        as_of : str, date or datetime
            The cut-off: features are computed from earlier events only. A date or datetime, or ISO text.

        Returns
        -------
        pyarrow.Table
            The keys and ``as_of``, then the columns of `predict_table`; sorted by key.

        Raises
        ------
        ConfigError
            If the model reads rows that are not built from events alone, or a table is missing.
        DataError
            If no key has an event before `as_of`.
        """
        rows = entities_to_predict(self, tables, as_of)
        found = prediction_table(self._predict(rows), self.goal, self.decision)
        keys = rows.arrow
        return pa.table([*keys.columns, *found.columns], names=[*keys.column_names, *found.column_names])

    @abstractmethod
    def verify(self) -> Verification:
        """Check every file again and predict the rows recorded in training; return the differences found.

        It does not prove the origin of the model: anyone who can change it can change hashes and recorded rows too.

        Returns
        -------
        Verification
            Differences of features, predictions and metrics; ``passed`` is true if all are within the tolerance.

        Raises
        ------
        ArtifactError
            If a file is corrupt, or the model has no recorded rows because an older version wrote it.
        """

    @abstractmethod
    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        """Return the calibrated prediction of rows, and the report on their values."""

    @abstractmethod
    def _explanation_of(self, rows: RowsToPredict, interactions: bool) -> Explanation:
        """Return the explanation of rows."""

    @abstractmethod
    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        """Return the feature matrix of rows, and the report on their values."""

    def _rows_to_predict(self, data: Any, tables: Any, as_of: Any) -> RowsToPredict:
        return rows_to_predict(self, data, tables, as_of)

    def _predict(self, rows: RowsToPredict) -> Prediction:
        prediction, report = self._prediction_of(rows)
        self._keep_report(report)
        return prediction

    def _transform(self, rows: RowsToPredict) -> Array:
        X, report = self._features_of(rows)
        self._keep_report(report)
        return X

    def _keep_report(self, report: PredictionReport) -> None:
        """Store the report of a prediction; issue its warnings at the line that called the model."""
        self._last.report = report
        for text in report.warnings if self.warns else ():
            warn_user(text, PredictionWarning)

    def source_of(self, path: str) -> TableSource:
        """Return the source of rows to score (file, glob, folder or URL), with the reader settings of the training."""
        return main_source(path, self.manifest["reading"], self.features, self.rules)

    def event_source(self, name: str, path: str) -> TableSource:
        """Return the source that reads the event table `name` from the given file, glob, folder or URL."""
        return event_source(path, self.events, self.manifest["reading"], self.features, name)

    def __repr__(self) -> str:
        return model_text(self)

    def _repr_html_(self) -> str:
        return model_html(self)
