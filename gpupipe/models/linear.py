"""Linear models. They see the dense view: scaled numbers, one-hot or target-encoded categories, nothing missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, NonNegative, Positive, PositiveInt
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

# A skinny matrix has too little work per call to share out: with two threads on two cores OpenBLAS took 1.5 times as
# long in lbfgs, 5 times in least squares, and 10 times in newton-cholesky while other programs were running.
WIDE = 256
# Newton's method keeps two float64 matrices: 16 bytes a cell, so 1.6 GB here. Its Hessian has (classes × columns)²
# cells.
NEWTON_CELLS = 100_000_000


class _Linear(ModelSettings):
    """Base of the linear models: one thread for a skinny matrix."""

    def blas_threads(self, n_features: int, n_threads: int) -> int:
        return 1 if n_features < WIDE else n_threads


class _LinearRegressor(_Linear):
    """Least squares in float64: in float32, columns of unlike scale vanish in the rounding of the normal equations."""

    tasks = REGRESSION

    def estimator_params(self, task: Task) -> dict[str, Any]:
        # The float64 matrix is the model's own copy: it may be centred in place.
        return {**super().estimator_params(task), "copy_X": False}

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        return X.astype("float64", order="F")


@MODELS.register("logistic_regression")
class LogisticRegression(_Linear):
    """Logistic regression, binary or multinomial.

    Two defaults differ from scikit-learn's: ``max_iter`` 1000, enough to converge on unscaled columns too; ``solver``
    auto: newton-cholesky in float64 while its matrices are small (a third of the time of lbfgs at a slightly lower
    loss), lbfgs in float32 beyond, saga where ``l1_ratio`` asks for sparsity.
    """

    tasks = CLASSIFICATION

    C: Positive = 1.0
    l1_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    dual: bool = False
    tol: Positive = 1e-4
    fit_intercept: bool = True
    intercept_scaling: Positive = 1
    class_weight: ClassWeight = None
    solver: Literal["auto", "lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"] = "auto"
    max_iter: PositiveInt = 1000

    def estimator_name(self, task: Task) -> str:
        return "LogisticRegression"

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        if self.solver != "auto":
            return {}
        if self.l1_ratio > 0:
            return {"solver": "saga"}
        n_rows, n_columns = X.shape
        n_weights = n_columns * (context.n_classes if context.task == "multiclass" else 1)
        is_small = n_weights < min(WIDE, n_rows) and n_rows * n_columns <= NEWTON_CELLS
        return {"solver": "newton-cholesky" if is_small else "lbfgs"}

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        # In float32 the Hessian of a full one-hot is singular to rounding, and the solver would start over with lbfgs.
        return X.astype("float64", order="C") if params["solver"] == "newton-cholesky" else X


@MODELS.register("linear_regression")
class LinearRegression(_LinearRegressor):
    """Ordinary least squares.

    One default differs from scikit-learn's: ``tol`` 1e-10 instead of 1e-6, the part of the largest singular value below
    which a direction is dropped. At 1e-6 a ratio beside an income in cents would be dropped, and nothing would say so.
    """

    takes_seed = False

    fit_intercept: bool = True
    tol: NonNegative = 1e-10
    positive: bool = False

    def estimator_name(self, task: Task) -> str:
        return "LinearRegression"


@MODELS.register("ridge")
class Ridge(_LinearRegressor):
    """Least squares with an L2 penalty."""

    alpha: NonNegative = 1.0
    fit_intercept: bool = True
    max_iter: PositiveInt | None = None
    tol: NonNegative = 1e-4
    solver: Literal["auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga", "lbfgs"] = "auto"
    positive: bool = False

    def estimator_name(self, task: Task) -> str:
        return "Ridge"


@MODELS.register("lasso")
class Lasso(_LinearRegressor):
    """Least squares with an L1 penalty.

    One default differs from scikit-learn's: ``precompute`` true, because a table has many more rows than columns, and
    the Gram matrix then saves reading all rows at every step.
    """

    alpha: NonNegative = 1.0
    fit_intercept: bool = True
    precompute: bool = True
    max_iter: PositiveInt = 1000
    tol: NonNegative = 1e-4
    positive: bool = False
    selection: Literal["cyclic", "random"] = "cyclic"

    def estimator_name(self, task: Task) -> str:
        return "Lasso"


@MODELS.register("elastic_net")
class ElasticNet(_LinearRegressor):
    """Least squares with L1 and L2 penalties; ``precompute`` is true for the reason given at `Lasso`."""

    alpha: NonNegative = 1.0
    l1_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    fit_intercept: bool = True
    precompute: bool = True
    max_iter: PositiveInt = 1000
    tol: NonNegative = 1e-4
    positive: bool = False
    selection: Literal["cyclic", "random"] = "cyclic"

    def estimator_name(self, task: Task) -> str:
        return "ElasticNet"
