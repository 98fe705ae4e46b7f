"""Weighted ensemble of fitted models: the prediction is the weighted mean of those of its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpupipe.models.composites.parts import FittedComposite, save_parts
from gpupipe.models.fitted.base import FittedModel, select_columns
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import repeated_predictions

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True)
class EnsembleMember:
    """Member of an ensemble: models of one configuration, each trained without one fold of the rows (bagging)."""

    label: str  # unique in the ensemble
    name: str  # name of the model, such as ``"xgboost"``
    weight: float  # positive; the weights of an ensemble sum to 1
    columns: tuple[int, ...]  # columns of the ensemble's matrix that the models read, in their order
    models: tuple[FittedModel, ...]  # the prediction of the member is their mean

    @property
    def weight_of_model(self) -> float:
        """The weight of each of the models in the ensemble."""
        return self.weight / len(self.models)

    def select(self, X: Array) -> Array:
        """Return the columns of the matrix of the ensemble that the models read, column-major."""
        return select_columns(X, self.columns)


@dataclass(frozen=True, repr=False)
class FittedEnsemble(FittedComposite):
    """A trained ensemble. Its `estimator` is a tuple of `EnsembleMember`.

    Probabilities are averaged for classification, values for regression. Every model has the task and the number of
    classes of the ensemble; a class that a model was not trained on has probability 0 in it.

    `save` writes the files of each model under their own names with a prefix, such as ``member-2-5-estimator.ubj`` for
    the fifth model of the second member. Only the libraries of the members are needed to predict.
    """

    library: ClassVar[str] = "ensemble"
    estimator: tuple[EnsembleMember, ...]

    @property
    def members(self) -> tuple[EnsembleMember, ...]:
        """The members, largest weight first."""
        return self.estimator

    @property
    def models(self) -> tuple[FittedModel, ...]:
        """The models of all members, in order."""
        return tuple(model for _, model in self.terms)

    @property
    def terms(self) -> list[tuple[EnsembleMember, FittedModel]]:
        """Each model with its member, in order."""
        terms: list[tuple[EnsembleMember, FittedModel]] = []
        for member in self.members:
            terms += [(member, model) for model in member.models]
        return terms

    @property
    def most_models(self) -> int:
        return max(len(member.models) for member in self.members)

    def of_first_models(self, n: int) -> FittedModel:
        if n >= self.most_models:
            return self
        return replace(self, estimator=tuple(replace(each, models=each.models[:n]) for each in self.members))

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d): the terms are added in the order of members and models."""
        total: Array | None = None
        with repeated_predictions(X.shape[0] * len(self.models)):  # models of one library share compiled loops
            for member in self.members:
                columns = member.select(X)
                for model in member.models:
                    part = model.predict(columns)
                    part.check(X.shape[0], self.n_classes)  # NumPy would broadcast another shape
                    term = part.output * member.weight_of_model
                    total = term if total is None else total + term
        assert total is not None
        return self.prediction(total)

    def prediction(self, output: Array) -> Prediction:
        """Return the prediction of averaged probabilities or values."""
        if self.task == "regression":
            return Prediction(self.task, value=output)
        return Prediction(self.task, probability=output)

    def _rows(self, engine: HostEngine) -> RowEstimator:
        from gpupipe.models.composites.rows import ensemble_rows

        return ensemble_rows(self, engine)

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return the weighted sum of the explanations of all models; see `EnsembleExplainer`."""
        from gpupipe.models.composites.contributions import EnsembleExplainer

        portable = self.portable()
        assert isinstance(portable, FittedEnsemble)
        return EnsembleExplainer(portable, background)

    def _mapped(self, change: Callable[[FittedModel], FittedModel]) -> Self:
        members = tuple(replace(member, models=tuple(map(change, member.models))) for member in self.members)
        changed = chain.from_iterable(member.models for member in members)
        is_same = all(before is after for before, after in zip(self.models, changed, strict=True))
        return self if is_same else replace(self, estimator=members)

    def unstable_rows(self, X: Array) -> Array:
        unstable = super().unstable_rows(X)
        for member in self.members:
            columns = member.select(X)
            for model in member.models:
                unstable |= model.unstable_rows(columns)
        return unstable

    def columns_read(self) -> tuple[int, ...]:
        """Return the columns of the matrix that a member reads, ascending."""
        return tuple(sorted(set(chain.from_iterable(member.columns for member in self.members))))

    def of_columns(self, columns: Sequence[int]) -> FittedModel:
        """Return the ensemble for the matrix of `columns` only, which must include those of `columns_read`."""
        places = {column: place for place, column in enumerate(columns)}
        members = tuple(
            replace(member, columns=tuple(places[column] for column in member.columns)) for member in self.members
        )
        return replace(self, estimator=members, feature_names=tuple(self.feature_names[column] for column in columns))

    def importances(self) -> dict[str, float] | None:
        """Return the weighted mean of the importances of all models, if all members have the same model.

        None for members with different models: their importances have no common scale.
        """
        if len({member.name for member in self.members}) > 1:
            return None
        total = dict.fromkeys(self.feature_names, 0.0)
        for member in self.members:
            for model in member.models:
                own = model.importances()
                if own is None:
                    return None
                for column, value in zip(member.columns, own.values(), strict=True):
                    total[self.feature_names[column]] += member.weight_of_model * value
        return total

    def column_weights(self, X: Array) -> Array | None:
        """Return the weighted mean, over all models, of each column's share in the weights of a model."""
        import numpy as np

        total = np.zeros(X.shape[1])
        for member in self.members:
            columns = member.select(X)
            for model in member.models:
                own = model.column_weights(columns)
                if own is None:
                    return None
                total[list(member.columns)] += member.weight_of_model * own / (own.sum() or 1.0)
        return total

    def weights(self) -> Mapping[str, float]:
        """Return the weight of each member, by label."""
        return {member.label: member.weight for member in self.members}

    def _save_models(self, folder: Path, *, quick: bool) -> dict[str, Any]:
        models: dict[str, FittedModel] = {}
        for i, member in enumerate(self.members):
            models.update((file_prefix(i, j), model) for j, model in enumerate(member.models))
        saved = save_parts(models, folder, quick=quick)
        members, rest = [], iter(saved)
        for member in self.members:
            own = {"label": member.label, "name": member.name, "weight": member.weight, "columns": list(member.columns)}
            members.append({**own, "models": list(islice(rest, len(member.models)))})
        files = list(chain.from_iterable(model["files"] for model in saved))
        return {**self._describe(files), "members": members}


def file_prefix(member: int, model: int) -> str:
    """Return the prefix of the files of a model, by the positions of its member and of the model in it."""
    return f"member-{member + 1}-{model + 1}-"
