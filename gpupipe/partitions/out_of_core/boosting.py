"""XGBoost training on partitions in files: one at a time is in memory, and XGBoost keeps bins instead of numbers.

A bin takes one byte per cell. If the bins do not fit in memory either, XGBoost keeps them in files ("external memory")
and reads them for every level of every tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xgboost

from gpupipe.models import FitContext, FittedModel
from gpupipe.models.base import BestRound
from gpupipe.models.early_stopping import HeldOut, fit_rounds
from gpupipe.models.training import explain_errors, keyword_arguments, prepare_rows, with_notes
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.models.xgboost.rounds import BoostingRounds
from gpupipe.models.xgboost.settings import XGBoost, native_parameters
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.out_of_core.workers import OutOfCoreWorkers
from gpupipe.partitions.training_memory import binned_bytes
from gpupipe.typing import Array


def fit_out_of_core(
    model: XGBoost, X: PartitionedMatrix, y: Array | None, context: FitContext, workers: OutOfCoreWorkers
) -> FittedModel:
    """Train XGBoost on a matrix in files.

    Bin edges come from a sketch that is merged partition by partition, so trees may differ in their last splits from
    those of a matrix in memory. Raise ConfigError if XGBoost refuses the parameters, and DataError if the rows have
    fewer than 2 classes.
    """
    _, codes, weights, classes = prepare_rows(model, X, y, context)
    assert codes is not None
    target, weights = codes.astype(np.float32), None if weights is None else weights.astype(np.float32)
    del codes  # holding a second copy of rows would defeat the purpose

    def fit(model: XGBoost, held: HeldOut | None) -> xgboost.Booster:
        params = keyword_arguments(model, X, context, context.backend.n_threads)
        settings = native_parameters(model.build(context, params), len(classes))
        n_margins = len(classes) if len(classes) > 2 else 1
        _, in_files = binned_bytes(*X.shape, n_margins, context.backend.memory().available)
        with TemporaryDirectory(dir=workers.store.folder) as own:
            made = _Matrices(X, target, weights, params.get("feature_types"), model.max_bin, context, own, in_files)
            return _train(model, settings, made, held, context)

    with explain_errors(model, X, context):
        booster, notes = fit_rounds(model, target, classes, context, len(target), fit, _best_round)
    fitted = FittedXGBoost(booster, context.task, tuple(context.feature_names), context.n_classes, classes)
    return with_notes(fitted, *notes)


def _best_round(booster: xgboost.Booster) -> BestRound:
    return BestRound(booster.best_iteration + 1, booster.num_boosted_rounds())


def _train(
    model: XGBoost,
    settings: dict[str, Any],
    made: _Matrices,
    held: HeldOut | None,
    context: FitContext,
) -> xgboost.Booster:
    """Return the Booster. The matrices are local, so that their files are deleted before the folder."""
    resources = context.resources
    rounds = BoostingRounds(model.n_estimators, model.stops_early(len(made.y)), resources.safe_point)
    drawn = None if held is None else held.drawn
    training = made.matrix(None if drawn is None else ~drawn)
    validation: list[tuple[xgboost.DMatrix, str]] = []
    if held is not None and (rows := held.given) is not None:
        others = replace(made, X=rows.X.drop_empty(), y=rows.y.astype(np.float32), weights=rows.weights)
        validation = [(others.matrix(held.known, training), "validation")]
    elif drawn is not None:
        validation = [(made.matrix(drawn, training), "validation")]
    with resources.show_progress(rounds.read):
        return xgboost.train(
            settings,
            training,
            model.n_estimators,
            evals=validation,
            early_stopping_rounds=model.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[rounds],
        )


@dataclass(frozen=True)
class _Matrices:
    """Builder of XGBoost matrices from selected rows."""

    X: PartitionedMatrix
    y: Array
    weights: Array | None
    kinds: Any
    n_bins: int
    context: FitContext
    folder: str
    in_files: bool
    made: Iterator[int] = field(default_factory=count)

    def matrix(self, mask: Array | None, like: Any = None) -> xgboost.DMatrix:
        """Return the rows where `mask` is true, or all; with the bins of another matrix, if one is given."""
        n_threads = self.context.backend.n_threads
        settings = {"max_bin": self.n_bins, "enable_categorical": bool(self.kinds), "nthread": n_threads}
        if self.in_files:
            partitions = _Partitions(self, mask, f"{self.folder}/{next(self.made)}")
            return xgboost.ExtMemQuantileDMatrix(partitions, ref=like, **settings)
        return xgboost.QuantileDMatrix(_Partitions(self, mask, None), ref=like, **settings)


class _Partitions(xgboost.DataIter):  # type: ignore[misc]
    """Data iterator that passes one partition at a time to XGBoost."""

    def __init__(self, made: _Matrices, mask: Array | None, prefix: str | None) -> None:
        self.made = made
        self.mask = mask
        self.at = 0
        self.spans = list(pairwise(made.X.bounds))
        super().__init__(cache_prefix=prefix)

    def reset(self) -> None:
        """Restart from the first partition."""
        self.at = 0

    def next(self, input_data: Any) -> bool:
        """Pass the next partition that has rows; return whether there was one."""
        while self.at < len(self.spans):
            part, rows = self.made.X.partitions[self.at], slice(*self.spans[self.at])
            self.at += 1
            if self._show(part, rows, input_data):
                return True
        return False

    def _show(self, part: Any, rows: slice, input_data: Any) -> bool:
        chosen = slice(None) if self.mask is None else self.mask[rows]
        y = self.made.y[rows][chosen]
        if len(y):
            (values,) = self.made.X.workers.gather([part])
            weights = None if self.made.weights is None else self.made.weights[rows][chosen]
            input_data(data=values[chosen], label=y, weight=weights, feature_types=self.made.kinds)
        return len(y) > 0
