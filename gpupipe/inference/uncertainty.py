"""Predictions with their uncertainty: probabilities, intervals and sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from gpupipe.inference.prediction.prediction_arrays import (
    intervals_of,
    probabilities_of,
    require_classes,
    require_intervals,
    sets_of,
)
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction
from gpupipe.table.frames import is_dask_frame
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.prediction.rows import RowsToPredict


class UncertainPredictions(ABC):
    """Methods of a model that return how certain its predictions are."""

    goal: Goal
    decision: Decision

    def predict_proba(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Any:
        """Return the probability of each class.

        Parameters
        ----------
        data, tables, as_of
            As in `gpupipe.Model.predict`.

        Returns
        -------
        array of float64, shape (n, k)
            Columns are in the order of ``goal.labels``. With several targets, a list of such arrays, as in
            scikit-learn, in the order of ``goal.targets``. For a Dask DataFrame a lazy Dask DataFrame with the columns
            ``probability_LABEL``.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `gpupipe.Model.predict`; DataError also if the model is not a classifier.
        """
        require_classes(self.goal)
        if is_dask_frame(data):
            from gpupipe.inference.dask_predictions import probability_frame

            return probability_frame(self, data, tables, as_of)  # type: ignore[arg-type]  # a mixin
        return probabilities_of(self._predict(self._rows_to_predict(data, tables, as_of)), self.goal)

    def predict_interval(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Array:
        """Return the prediction interval of each row, for a regression with ``evaluate.intervals``.

        Parameters
        ----------
        data, tables, as_of
            As in `gpupipe.Model.predict`.

        Returns
        -------
        array of float64, shape (n, 2)
            Lower and upper end. ``decision.intervals.level`` is the expected coverage. With several targets, shape
            (n, n_targets, 2).

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `gpupipe.Model.predict`; DataError also if the model has no intervals.
        """
        require_intervals(self.goal, self.decision, "regression")
        return intervals_of(self._predict(self._rows_to_predict(data, tables, as_of)), self.goal, self.decision)

    def predict_set(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | date | datetime | None = None
    ) -> Any:
        """Return the prediction set of each row, for a classifier with ``evaluate.intervals``.

        Parameters
        ----------
        data, tables, as_of
            As in `gpupipe.Model.predict`.

        Returns
        -------
        array of bool, shape (n, k)
            Whether each class of ``goal.labels`` is in the set. A set is empty if the model is almost certain of rows
            that it may miss at this level. With several targets, a list of such arrays.

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `gpupipe.Model.predict`; DataError also if the model has no sets.
        """
        require_intervals(self.goal, self.decision, "classification")
        return sets_of(self._predict(self._rows_to_predict(data, tables, as_of)), self.goal, self.decision)

    @abstractmethod
    def _rows_to_predict(self, data: Any, tables: Any, as_of: Any) -> RowsToPredict:
        """Return the arguments of a prediction as rows."""

    @abstractmethod
    def _predict(self, rows: RowsToPredict) -> Prediction:
        """Return the calibrated prediction of rows."""
