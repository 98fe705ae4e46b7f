"""Interface of models loaded from their directories: what they read, predict and report."""

from __future__ import annotations

import html
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import ArtifactError, DataError, PredictionWarning
from gpupipe.io.settings import TableSource
from gpupipe.models import Prediction
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.id_columns import IdColumns, copy_columns, require_free_names
from gpupipe.pipeline.model.events import NO_EVENTS, ServedEvents
from gpupipe.pipeline.model.input_source import event_source, main_source
from gpupipe.pipeline.model.part_checks import read_importances
from gpupipe.pipeline.model.prediction_report import PredictionReport
from gpupipe.pipeline.model.prediction_table import class_probabilities, prediction_table, prediction_values
from gpupipe.pipeline.model.rows import RowsToPredict, entities_to_predict, rows_to_predict
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.rules import ServedRules
from gpupipe.pipeline.target import Goal
from gpupipe.table.frames import frame_to_arrow
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.pipeline.untrusted.description import DescribedFeatures

MOST_SHOWN = 30  # input columns, metrics, labels


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedModel(ABC):
    """A model of a directory, ready to predict.

    `gpupipe.Model` computes in this process, `gpupipe.UntrustedModel` in a child process.

    Attributes
    ----------
    features : FittedFeatures | DescribedFeatures
        Input columns and feature names.
    manifest : dict
        The content of manifest.json, or the part of it that predictions need.
    goal, decision, backend, folder, rules, events, warns
        As in `gpupipe.Model`. Remarks on the work are in ``backend.take_remarks()``.
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
    # Per thread: servers predict in several.
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
        return class_probabilities(self._predict(rows_to_predict(self, data, tables, as_of)).output)

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

    @overload
    def transform(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        as_frame: Literal[False] = False,
    ) -> Array: ...
    @overload
    def transform(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        as_frame: Literal[True],
    ) -> pd.DataFrame: ...
    def transform(
        self,
        data: Any,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
        *,
        as_frame: bool = False,
    ) -> Array | pd.DataFrame:
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

    @abstractmethod
    def verify(self) -> Verification:
        """Check every file again, replay here what the training side recorded, and return how far they are apart.

        Raises
        ------
        ArtifactError
            If a file is damaged, or nothing was recorded: a model of an older version.
        """

    @abstractmethod
    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        """Return the calibrated prediction of rows, with the report on their values."""

    @abstractmethod
    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        """Return the feature matrix of rows, with the report on their values."""

    def _predict(self, rows: RowsToPredict) -> Prediction:
        prediction, report = self._prediction_of(rows)
        self._keep_report(report)
        return prediction

    def _transform(self, rows: RowsToPredict) -> Array:
        X, report = self._features_of(rows)
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

    @property
    def _name(self) -> str:
        return str(self.manifest.get("model", {}).get("name", "model"))

    def __repr__(self) -> str:
        of = f" of {_cut(self.goal.target, 40)!r}" if self.goal.target else ""
        return (
            f"{type(self).__name__}({self._name}: {self.goal.task}{of}, {len(self.inputs)} inputs, "
            f"{len(self.feature_names)} features, {self.backend.name}, {str(self.folder)!r})"
        )

    def _repr_html_(self) -> str:
        """Return two tables: the model, and its input columns."""
        goal, manifest = self.goal, self.manifest
        facts = {
            "model": self._name,
            "task": goal.task + (f", labels {_some([str(label) for label in goal.labels])}" if goal.labels else ""),
            "target": goal.target or "none",
            "threshold": f"{self.decision.threshold:.4g}" if goal.task == "binary" else "",
            "features": f"{len(self.feature_names)}, computed on the {self.backend.name}",
            "metrics": _some(
                [f"{n} {v:.4g}" for n, v in manifest.get("metrics", {}).items() if isinstance(v, int | float)]
            ),
            "trained": f"{manifest.get('created', '')} with gpupipe {manifest.get('gpupipe', '')}",
            "directory": str(self.folder),
        }
        body = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items() if text)
        kinds = {
            column.source: f"{column.kind} ({column.dtype})"
            for column in self.features.input_schema
            if not column.derived
        }
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(kinds.get(name, ''))}</td></tr>"
            for name in self.inputs[:MOST_SHOWN]
        )
        more = len(self.inputs) - MOST_SHOWN
        rest = f"<tr><td>and {more} more</td><td></td></tr>" if more > 0 else ""
        return f"<table>{body}</table><table><tr><th>input column</th><th>kind</th></tr>{rows}{rest}</table>"


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:MOST_SHOWN]) + (f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
