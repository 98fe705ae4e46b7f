"""Settings of the ensemble ``best``; `gpupipe.training.ensemble` trains it."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

from pydantic import Field, field_validator

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, PositiveInt
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.settings import Seconds
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

NAME = "Ensemble"
"""Placeholder for the scikit-learn class name: the members have one each."""


@MODELS.register("best")
class Best(ModelSettings):
    """Weighted ensemble of many models: a classifier or a regressor, by the task.

    Trains the models of a portfolio in the order of their value per predicted cost, each once for every fold of the
    training rows, and predicts each row with the models that were not trained on it. Greedy selection on these
    predictions, by the metric that ranks the leaderboard, gives the weights. Models with weight 0 are dropped.

    With ``split.time``, the weights are selected on the latest eighth of the training rows, predicted by further models
    of the earlier rows. Boosters of a regression are also trained on the residuals of a ridge regression, which
    continues a trend where trees cannot.

    Models of libraries that are not installed are skipped: CatBoost (``pip install 'gpupipe[catboost]'``), LightGBM
    (``'gpupipe[lightgbm]'``) and PyTorch (``'gpupipe[torch]'``) each add members that differ from the others. The
    training rows must be in the memory of one process, on the CPU or the GPU.
    """

    tasks = CLASSIFICATION | REGRESSION
    view = "combined"
    accepts_missing = True
    takes_seed = False

    time_limit: Seconds | None = Field(
        None,
        description="Wall-clock time of this candidate in a run, from its first training to the report: seconds or "
        "text such as `90s` or `10min`. 15 % of it, at most 30 s, are kept for explanation, export and report. Models "
        "that are predicted to take longer than what is left are skipped. null: the whole portfolio.",
    )
    members: PositiveInt = Field(25, description="Maximum number of members.")
    folds: Annotated[int, Field(ge=2, le=30)] | None = Field(
        None,
        description="Number of folds, and of models per member. null: 8, 5 for more than 100,000 rows, and fewer "
        "within a short time limit. On the CPU, without groups and class_weight, a forest is one model, whose trees "
        "predict the rows that they were not grown on.",
    )
    out_of_fold: bool = Field(
        False,
        description="With `split.cv`: train one ensemble on all rows, on the folds of `split.cv`, and evaluate it by "
        "its out-of-fold predictions, instead of one ensemble for each fold and one on all rows.",
    )
    models: list[str] | None = Field(
        None, description="Names of the models to use. null: all models of the portfolio that are installed."
    )
    class_weight: ClassWeight = None

    @field_validator("models")
    @classmethod
    def _are_in_the_portfolio(cls, names: list[str] | None) -> list[str] | None:
        if names is not None and not names:
            raise ValueError("name at least one model, or use null for all")
        for name in names or ():
            if name not in PORTFOLIO_MODELS:
                hint = did_you_mean(name, PORTFOLIO_MODELS) or f"it has {', '.join(PORTFOLIO_MODELS)}"
                raise ValueError(f"the portfolio has no model {name!r}; {hint}")
        return names

    def estimator_name(self, task: Task) -> str:
        return NAME

    def estimator_params(self, task: Task) -> dict[str, Any]:
        return {}

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        # Not PyTorch, which takes seconds to import, and may not be used within a time limit.
        models = [MODELS.get(name).model_construct() for name in self.models or PORTFOLIO_MODELS if name in MODELS]
        others = [model for model in models if task in model.tasks and not isinstance(model, NeuralSettings)]
        modules = chain(["sklearn.model_selection"], *(model.modules(task, backend) for model in others))
        return tuple(dict.fromkeys(modules))

    def build(self, context: Any, params: Any) -> Any:
        """Raise ConfigError: only a run trains an ensemble, since it needs a metric and folds."""
        raise ConfigError(
            "an ensemble is trained by a run only, which has the metric and the folds",
            where="models: best",
            fix="call gpupipe.run with models: best",
        )


PORTFOLIO_MODELS = (
    "lightgbm", "catboost", "xgboost", "hist_gradient_boosting", "random_forest", "extra_trees",
    "logistic_regression", "ridge", "mlp", "tabm",
)  # fmt: skip
"""Names of the models of the portfolio, see `gpupipe.training.ensemble.portfolio`."""
