"""`Scorer`: predictions for single rows, in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.errors import ConfigError, DataError
from gpupipe.inference.prediction.prediction_arrays import (
    intervals_of,
    no_predictions,
    prediction_values,
    probabilities_of,
    require_classes,
    require_intervals,
    sets_of,
)
from gpupipe.inference.scorer.derived_columns import content_derivers, derive_history
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.inference.scorer.row_arguments import as_rows, of_first
from gpupipe.inference.scorer.warm_up import warm_up
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.row_rules import RowRules
from gpupipe.table.row_encoder import Row, RowCells, RowEncoder
from gpupipe.table.schema import Column
from gpupipe.typing import Array
from gpupipe_kernels.rows.row_program import RowProgram

if TYPE_CHECKING:
    from gpupipe.features.history.derivation import Derivation
    from gpupipe.inference.explanation.compute import ModelExplainer
    from gpupipe.inference.explanation.explanation import Explanation
    from gpupipe.inference.model import Model
    from gpupipe.inference.prediction.parts import ModelParts
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Scorer:
    """A model compiled for single rows, as returned by `gpupipe.Model.scorer` and `gpupipe.load_scorer`.

    A row is a dict of raw values: str, int, float, bool, None, datetime, date, or a NumPy or pandas scalar. It must
    have each column of `inputs`; None and NaN are missing values, and other keys are ignored. Results equal those of
    `gpupipe.Model` bit for bit, except for networks, custom estimators and plug-ins, whose last digits depend on the
    number of rows. Threads may share a scorer; a pickle has the files of the model.

    Attributes
    ----------
    goal : Goal
        Task, target and class labels.
    feature_names : tuple of str
        Names of the values that `features` returns.
    program : RowProgram
        The feature program.
    estimator : RowEstimator
    decision : Decision
        Calibration and threshold.
    rules : tuple of ServedRules
        The rules of ``data:``, which every row must satisfy.
    manifest : dict
        The content of manifest.json, or the entries of it that are known before the export.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline, load_scorer
    >>> frame = pd.DataFrame({"age": [31, 45, 27, 52], "plan": ["a", "b", "a", None], "left": [0, 1, 0, 1]})
    >>> folder, rows = tempfile.TemporaryDirectory(), pd.concat([frame] * 25)
    >>> run = Pipeline(rows, target="left", models=["logistic_regression"]).run(f"{folder.name}/run", quiet=True)
    >>> scorer = load_scorer(run.path)
    >>> scorer.predict({"age": 30, "plan": "a"})
    0
    >>> scorer.predict_proba([{"age": 30, "plan": "a"}, {"age": "51", "plan": None}]).round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> scorer.predict({"age": "thirty", "plan": "a"})
    Traceback (most recent call last):
    gpupipe.errors.RowError: row 0, column 'age': expected a number; found 'thirty'
      where: rows are counted from 0
      to do: correct the values, or make them null
    >>> folder.cleanup()
    """

    goal: Goal
    feature_names: tuple[str, ...]
    program: RowProgram
    encoder: RowEncoder
    estimator: RowEstimator
    decision: Decision
    row_rules: RowRules | None
    rules: tuple[ServedRules, ...]
    manifest: Mapping[str, Any]
    derivation: Derivation | None = None
    open_model: Callable[[], Model] | None = None
    open_explainer: Callable[[], ModelExplainer] | None = None

    @staticmethod
    def of(
        parts: ModelParts,
        *,
        engine: HostEngine,
        manifest: Mapping[str, Any] | None = None,
        open_model: Callable[[], Model] | None = None,
        open_explainer: Callable[[], ModelExplainer] | None = None,
    ) -> Scorer:
        """Return the scorer of the parts of a model, compiled and warmed up.

        `open_model` returns the whole model, for `with_history`; `open_explainer` what `explain` needs.

        Raises
        ------
        ConfigError
            If the model needs a library for its rules or texts that is not installed.
        """
        features, rules = parts.features, parts.rules
        strip = bool((manifest or {}).get("reading", {}).get("strip", False))
        encoder = RowEncoder(features.schema, content_derivers(features.derivation, engine, strip), encode_by_table)
        scorer = Scorer(
            goal=parts.goal,
            feature_names=tuple(features.names),
            program=RowProgram(features.program, encoder.positions, encoder.layout, engine),
            encoder=encoder,
            estimator=parts.estimator.row_estimator(engine),
            decision=parts.decision,
            row_rules=RowRules(rules, encode_by_table, strip) if rules else None,
            rules=rules,
            manifest=manifest or {},
            derivation=features.derivation,
            open_model=open_model,
            open_explainer=open_explainer,
        )
        warm_up(scorer)
        return scorer

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that every row must have."""
        return self.encoder.inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that every row must have: kinds, levels and formats."""
        return self.encoder.columns

    @property
    def history_inputs(self) -> dict[str, tuple[str, ...]]:
        """Those of `inputs` that are values of a history, with the columns that each is derived from.

        Compute them in advance, with `with_history` or in a feature store, and pass them like other columns.
        """
        made = {} if self.derivation is None else self.derivation.made
        return {name: tuple(made[name]) for name in self.inputs if name in made}

    @property
    def engine(self) -> str:
        """The engine of the features: ``"numba"`` (compiled) or ``"numpy"``."""
        return self.program.engine

    @property
    def estimator_name(self) -> str:
        """Name of the algorithm that predicts from the features: ``"compiled trees"``, ``"ONNX Runtime"``."""
        return self.estimator.name

    def __repr__(self) -> str:
        return (
            f"Scorer({self.manifest.get('model', {}).get('name', 'model')}: {self.goal.task}, {len(self.inputs)} "
            f"inputs, {len(self.feature_names)} features by {self.engine}, prediction by {self.estimator_name})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.open_model is None:
            raise TypeError("a scorer that was made from parts of a run cannot be pickled; pickle its model")
        return _compile_again, (self.open_model(), self.engine)

    def predict(self, rows: Row | Sequence[Row]) -> Any:
        """Return the prediction of a row, or of each row of a list.

        Parameters
        ----------
        rows : dict, or sequence of dict
            See `Scorer`.

        Returns
        -------
        label, float, int, or array
            For one row: its class label, its value as a float, its quantiles, float64, shape (k,), the number of its
            cluster, its embedding, float32, shape (k,), or the labels or values of several targets, shape (k,). For a
            sequence: an array as from `gpupipe.Model.predict`.

        Raises
        ------
        RowError
            If a row lacks a column, or a value contradicts the kind of its column or a rule; `problems` lists them.
        DataError
            If a row is not a dict.
        """
        if not isinstance(rows, Mapping):
            return self.values(self.predict_cells(self.encode(as_rows(rows))))
        found = self.predict_cells(self.encode((rows,)))
        if found.probability is not None:
            return self.goal.labels[
                int(predicted_labels(self.goal.task, found.probability, self.decision.threshold)[0])
            ]
        value = self.values(found)[0]
        return value if value.ndim else value.item()

    def predict_proba(self, rows: Row | Sequence[Row]) -> Any:
        """Return the probability of each class, in the order of ``goal.labels``.

        Returns
        -------
        array of float64, shape (k,) for one row or (n, k) for a sequence
            With several targets, a list of such arrays.

        Raises
        ------
        RowError, DataError
            As `predict`; DataError also if the model is not a classifier.
        """
        require_classes(self.goal)
        is_single = isinstance(rows, Mapping)
        prediction = self.predict_cells(self.encode(as_rows(rows)))
        if self.goal.targets:
            return of_first(probabilities_of(prediction, self.goal), is_single)
        found = prediction.output
        if found.ndim == 1:  # binary: the probability of class 1
            both = np.empty((len(found), 2))
            np.subtract(1.0, found, out=both[:, 0])
            both[:, 1] = found
            found = both
        return found[0] if is_single else found

    def predict_interval(self, rows: Row | Sequence[Row]) -> Array:
        """Return the prediction interval of each row, as `gpupipe.Model.predict_interval`.

        Returns
        -------
        array of float64, shape (2,) for one row or (n, 2) for a sequence
            With several targets, shape (n_targets, 2) or (n, n_targets, 2).

        Raises
        ------
        RowError, DataError
            As `predict`; DataError also if the model has no intervals.
        """
        require_intervals(self.goal, self.decision, "regression")
        found = intervals_of(self.predict_cells(self.encode(as_rows(rows))), self.goal, self.decision)
        return found[0] if isinstance(rows, Mapping) else found

    def predict_set(self, rows: Row | Sequence[Row]) -> Any:
        """Return the prediction set of each row, as `gpupipe.Model.predict_set`.

        Returns
        -------
        array of bool, shape (k,) for one row or (n, k) for a sequence
            With several targets, a list of such arrays.

        Raises
        ------
        RowError, DataError
            As `predict`; DataError also if the model has no sets.
        """
        require_intervals(self.goal, self.decision, "classification")
        found = sets_of(self.predict_cells(self.encode(as_rows(rows))), self.goal, self.decision)
        return of_first(found, isinstance(rows, Mapping))

    def features(self, rows: Row | Sequence[Row]) -> Array:
        """Return the values that the estimator predicts from.

        Returns
        -------
        array of float32, shape (d,) for one row or (n, d) for a sequence
            Columns are `feature_names`.

        Raises
        ------
        RowError, DataError
            As `predict`.
        """
        is_single = isinstance(rows, Mapping)
        found = self.program.run(self.encode(as_rows(rows)).records)
        return found[0] if is_single else found

    def explain(self, rows: Row | Sequence[Row]) -> Explanation:
        """Return how much each input column contributes to the prediction of each row, as `gpupipe.Model.explain`.

        The first call reads what explanations need; see `prepare_explanations`.

        Returns
        -------
        Explanation
            Its values equal those of `gpupipe.Model.explain` bit for bit, with the exceptions of predictions.

        Raises
        ------
        RowError, DataError
            As `predict`; DataError also if the model predicts clusters or an embedding.
        ConfigError
            If a library that explains the model is not installed.
        """
        return self.explain_cells(self.encode(as_rows(rows)))

    def prepare_explanations(self) -> None:
        """Read what `explain` needs and load its code, so that the first explanation takes no longer; raise as it."""
        self.explain_cells(self.encoder.encode([dict.fromkeys(self.inputs)]))

    @property
    def has_explanations(self) -> bool:
        """True once explanations are prepared."""
        return "_explainer" in vars(self)

    @cached_property
    def _explainer(self) -> ModelExplainer:
        if self.open_explainer is None:
            raise DataError("the scorer was made from parts of a run", fix="explain rows with the scorer of its model")
        return self.open_explainer()

    def with_history(
        self,
        rows: Row | Sequence[Row],
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
    ) -> Any:
        """Return rows with their `history_inputs`, computed from events. This takes milliseconds, and needs pyarrow.

        Parameters
        ----------
        rows : dict, or sequence of dict
            The columns of the main table that the history is derived from, such as its keys, and further columns.
        tables : mapping of str to frame or path, optional
            Events, at least those of the keys in `rows`, by the name of their table in the configuration.
        as_of : str, date or datetime, optional
            Cut-off, as in `gpupipe.Model.predict`.

        Returns
        -------
        dict, or list of dict
            The rows, with the further columns.

        Raises
        ------
        GpupipeError
            As `gpupipe.Model.predict`; ConfigError also if the model derives no columns from a history.
        """
        if not self.history_inputs or self.open_model is None:
            raise ConfigError("the model derives no columns from a history", fix="pass the rows to predict")
        found = derive_history(self.open_model(), self.inputs, as_rows(rows), tables, as_of)
        return found[0] if isinstance(rows, Mapping) else found

    def encode(self, rows: Sequence[Row]) -> RowCells:
        """Return rows checked and encoded, for `predict_cells`.

        Servers encode each request by itself, so that a bad one fails alone, and predict several together.

        Raises
        ------
        RowError, DataError
            As `predict`.
        """
        cells = self.encoder.encode(rows)
        if self.row_rules is not None and (warnings := self.row_rules.check(rows)):
            return replace(cells, warnings=tuple(warnings))
        return cells

    def predict_cells(self, cells: RowCells) -> Prediction:
        """Return the calibrated prediction of encoded rows."""
        if cells.n_rows == 0:
            return self._no_prediction
        found = self.estimator(self.program.run(cells.records))
        return self.decision.apply(found) if self.decision.calibrates else found

    def explain_cells(self, cells: RowCells) -> Explanation:
        """Return the explanation of encoded rows."""
        return self._explainer.explain(self.program.run(cells.records))

    def values(self, prediction: Prediction) -> Array:
        """Return labels, values or clusters, shape (n,), or embeddings, shape (n, k), as `gpupipe.Model.predict`."""
        return prediction_values(prediction, self.goal, self.decision)

    @cached_property
    def _no_prediction(self) -> Prediction:
        return no_predictions(self.goal)


def _compile_again(model: Model, engine: HostEngine) -> Scorer:
    return model.scorer(engine)
