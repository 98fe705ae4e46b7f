"""Row estimators of several models: those of one form are computed at once, the others one after the other.

The outputs are combined as the models combine them in `FittedModel.predict`, so the bits are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.models.fitted.base import FittedModel, in_order, logistic, select_columns
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.tree_sums import walk_name
from gpupipe.models.lightgbm.fitted import FittedLightGBM
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from gpupipe.models.xgboost.fitted import FittedXGBoost

if TYPE_CHECKING:
    from gpupipe.models.composites.ensemble import FittedEnsemble
    from gpupipe.models.composites.parts import FittedParts, FittedQuantiles, FittedTargets
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True)
class PlacedModel:
    """One of several models that are predicted together.

    `columns` are those of the common matrix that it reads, in their order.
    """

    position: int
    columns: tuple[int, ...]
    model: FittedModel

    def select(self, X: Array) -> Array:
        """Return the columns of the common matrix that the model reads."""
        return select_columns(X, self.columns)


@dataclass(frozen=True)
class ModelGroup:
    """Models that are predicted at once."""

    positions: list[int]  # their positions among all models
    name: str  # what computes the predictions, as in `RowEstimator`
    # From the rows of the common matrix, float32, shape (n, d), to the outputs, float64, shape (m, n) or (m, n,
    # n_classes) for m models.
    outputs: Callable[[Any], Any]


def ensemble_rows(ensemble: FittedEnsemble, engine: HostEngine) -> RowEstimator:
    """Return the row estimator of an ensemble of portable models."""
    import numpy as np

    terms = ensemble.terms
    placed = [PlacedModel(i, member.columns, model) for i, (member, model) in enumerate(terms)]
    name, outputs = _together(placed, engine, len(ensemble.feature_names))
    tail = (1,) if ensemble.task == "multiclass" else ()
    weights = np.array([member.weight_of_model for member, _ in terms]).reshape(-1, 1, *tail)
    to_prediction = ensemble.prediction

    def predict(X: Array) -> Prediction:
        weighted: Any = outputs(X) * weights
        # Not sum, which may add in another order.
        return to_prediction(np.add.accumulate(weighted, axis=0, out=weighted)[-1])

    return RowEstimator(f"ensemble of {name}", predict)


def quantile_rows(model: FittedQuantiles, engine: HostEngine) -> RowEstimator:
    """Return the row estimator of portable models of several quantiles."""
    placed = _placed(model)
    name, outputs = _together(placed, engine, len(model.feature_names))
    return RowEstimator(name, lambda X: Prediction("quantile", quantiles=in_order(outputs(X).T)))


def target_rows(model: FittedTargets, engine: HostEngine) -> RowEstimator:
    """Return the row estimator of portable models of several targets."""
    import numpy as np

    placed, specs = _placed(model), model.targets
    if any(spec.task == "multiclass" for spec in specs):  # outputs of different shapes
        groups = _grouped(placed, engine, len(model.feature_names))

        def predict(X: Array) -> Prediction:
            found: dict[int, Array] = {}
            for group in groups:
                found |= dict(zip(group.positions, group.outputs(X), strict=True))
            columns = [found[i] if found[i].ndim > 1 else found[i][:, None] for i in range(len(specs))]
            return Prediction("multioutput", outputs=np.concatenate(columns, axis=1), targets=specs)

        return RowEstimator(_name(groups), predict)
    name, outputs = _together(placed, engine, len(model.feature_names))
    return RowEstimator(name, lambda X: Prediction("multioutput", outputs=outputs(X).T, targets=specs))


def _placed(model: FittedParts) -> list[PlacedModel]:
    columns = tuple(range(len(model.feature_names)))
    return [PlacedModel(i, columns, each) for i, each in enumerate(model.models)]


def _together(
    placed: Sequence[PlacedModel], engine: HostEngine, n_columns: int
) -> tuple[str, Callable[[Array], Array]]:
    """Return what computes the predictions, and the function from rows to the outputs of all models in order."""
    import numpy as np

    groups = _grouped(placed, engine, n_columns)
    order = list(chain.from_iterable(group.positions for group in groups))
    is_ordered, place_of = order == sorted(order), np.argsort(order)

    def outputs(X: Array) -> Array:
        parts = [group.outputs(X) for group in groups]
        found: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return found if is_ordered else found[place_of]

    return _name(groups), outputs


def _grouped(placed: Sequence[PlacedModel], engine: HostEngine, n_columns: int) -> list[ModelGroup]:
    groups = [*_linear_groups(placed, engine), *_tree_groups(placed, engine, n_columns)]
    grouped = set(chain.from_iterable(group.positions for group in groups))
    return groups + [_single(each, engine) for each in placed if each.position not in grouped]


def _name(groups: Sequence[ModelGroup]) -> str:
    """Return what computes the predictions, with the number of models of each."""
    n_models: Counter[str] = Counter()
    for group in sorted(groups, key=lambda group: group.positions):
        n_models[group.name] += len(group.positions)
    return ", ".join(f"{name} ({count})" for name, count in n_models.items())


def _single(placed: PlacedModel, engine: HostEngine) -> ModelGroup:
    estimator, select = placed.model.row_estimator(engine), placed.select
    return ModelGroup([placed.position], estimator.name, lambda X: estimator(select(X)).output[None])


def _linear_groups(placed: Sequence[PlacedModel], engine: HostEngine) -> list[ModelGroup]:
    """Return groups of the linear models with one output that read the same columns."""
    by_columns: dict[tuple[int, ...], list[PlacedModel]] = {}
    for each in placed:
        model = each.model
        if isinstance(model, FittedLinear) and model.task != "multiclass" and len(model.estimator.coef) == 1:
            by_columns.setdefault(each.columns, []).append(each)
    return [_linear_group(models, engine) for models in by_columns.values()]


def _linear_group(models: Sequence[PlacedModel], engine: HostEngine) -> ModelGroup:
    import numpy as np

    from gpupipe.models.linear.rows import linear_scores

    estimators = [each.model.estimator for each in models]
    coefficients = Coefficients(
        np.concatenate([each.coef for each in estimators]), np.concatenate([each.intercept for each in estimators])
    )
    scores, select = linear_scores(coefficients, engine), models[0].select
    name = models[0].model.row_estimator(engine).name
    positions = [each.position for each in models]
    if models[0].model.task == "regression":
        return ModelGroup(positions, name, lambda X: scores(select(X)).T)
    return ModelGroup(positions, name, lambda X: logistic(scores(select(X))).T)


def _tree_groups(placed: Sequence[PlacedModel], engine: HostEngine, n_columns: int) -> list[ModelGroup]:
    """Return groups of models of one library with the same kind of output, whose trees become one forest."""
    by_kind: dict[tuple[Any, ...], list[tuple[PlacedModel, Any]]] = {}
    for each in placed:
        model = each.model
        trees = (
            model.trees()
            if isinstance(model, FittedXGBoost)
            else model.estimator.trees
            if isinstance(model, FittedLightGBM)
            else None
        )
        if trees is None:
            continue
        n_outputs = trees.n_outputs
        if model.task != "multiclass" or n_outputs == model.n_classes:
            by_kind.setdefault((model.library, n_outputs, trees.link), []).append((each, trees))
    return [_tree_group(models, engine, n_columns) for models in by_kind.values()]


def _tree_group(models: Sequence[tuple[PlacedModel, Any]], engine: HostEngine, n_columns: int) -> ModelGroup:
    from gpupipe.models.lightgbm.rows import lightgbm_forest_outputs
    from gpupipe.models.xgboost.rows import forest_scores

    columns = [each.columns for each, _ in models]
    is_xgboost = isinstance(models[0][0].model, FittedXGBoost)
    forest = forest_scores if is_xgboost else lightgbm_forest_outputs
    outputs = forest([trees for _, trees in models], columns, n_columns, engine)
    return ModelGroup([each.position for each, _ in models], walk_name(engine), outputs)
