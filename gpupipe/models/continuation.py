"""Continuation of a training: trees that are added to those of a fitted model, or sums of rows added to its sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from gpupipe.errors import ConfigError, DataError
from gpupipe.models.fitted.seen_rows import MOST_COEFFICIENTS

if TYPE_CHECKING:
    from gpupipe.models.base import ModelSettings
    from gpupipe.models.fitted.base import FittedModel

ModelT = TypeVar("ModelT", bound="ModelSettings")


@dataclass(frozen=True)
class StartingModel:
    """Fitted model whose training continues, with `FittedModel.seen_rows` if it has them.

    `n_rows` is the number of rows that it was trained on.
    """

    model: FittedModel
    n_rows: int

    def require_continuable(self, name: str) -> None:
        """Raise ConfigError if the training of the model `name` cannot continue."""
        single = self.unscaled.model
        if single.n_rounds or single.seen_rows is not None:
            return
        raise ConfigError(
            f"the training of {name} cannot continue from its model: that of xgboost (gbtree), of lightgbm, and of "
            f"linear models with their default solvers and at most {MOST_COEFFICIENTS} coefficients can",
            fix="pass the old rows as well, to train it again: --with OLD",
        )

    @property
    def units(self) -> tuple[tuple[float, float], ...]:
        """Offset and unit of the target during its training; empty if they are 0 and 1."""
        return self.model.target_units

    @property
    def unscaled(self) -> StartingModel:
        """The model in the units of its training."""
        return replace(self, model=self.model.unscaled)

    @property
    def estimator(self) -> Any:
        """The estimator of its library."""
        return self.model.with_library().estimator

    def settings(self, settings: ModelT, n_rows: int) -> ModelT:
        """Return the settings of the further rounds of boosting, for `n_rows` new rows, without early stopping.

        There is a round for each that the model has, times the new rows per row before: a model of all rows would have
        as many for each row. At least one round is added.
        """
        rounds = self.model.n_rounds
        return settings.with_rounds(max(1, math.ceil(rounds * n_rows / self.n_rows))) if rounds else settings

    def require_classes(self, classes: tuple[int, ...]) -> None:
        """Raise DataError if the new rows have other classes than the model."""
        if classes != self.model.classes:
            raise DataError(
                f"the new rows have {len(classes)} classes of the target, the model has {len(self.model.classes)}",
                fix="pass the old rows as well, to train it again: --with OLD",
            )
