"""Linear models on the dense view: scaled numbers, one-hot or target-encoded categories, no missing values."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gpupipe.models.base import (
    MODELS,
    ClassWeight,
    Invariance,
    ModelSettings,
    NonNegative,
    Positive,
    PositiveInt,
    choose_for_task,
)
from gpupipe.models.contradictions import Contradiction
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

# From this many coefficients on, Newton's method takes 2 to 5 times the CPU time of lbfgs: with 256, 512 and 1024
# columns and 50,000 rows 0.4, 1.4 and 5.4 s instead of 0.2, 0.4 and 0.9 s. With 45 to 108 columns of public tables they
# take about the same time, and lbfgs stops at a higher loss.
WIDE = 256
# For Newton's method a GPU would get a float64 copy of the matrix: 0.8 GB at this number of cells.
DEVICE_CELLS = 100_000_000
SMOOTH = ("auto", "lbfgs", "newton-cg", "newton-cholesky")  # these solvers reach the same minimum
NEWTON = "gpupipe.models.linear.newton"
L2_SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "sag")
SOLVERS: dict[Task, tuple[str, ...]] = {
    "binary": ("auto", *L2_SOLVERS, "saga", "liblinear"),
    "multiclass": ("auto", *L2_SOLVERS, "saga"),
}


class LinearSettings(ModelSettings):
    """Base of the linear models.

    Newton's method and least squares read the matrix in passes over blocks of rows. The other solvers are
    scikit-learn's.
    """

    takes_threads = True
    # Passes have their own threads. With 2 threads of BLAS, lbfgs takes 1.5 to 5 times the CPU time on 50,000 rows and
    # 256 to 1024 columns, and 50 times on 2,000 rows; the bits of its model depend on their number.
    uses_blas_threads = False

    def can_train_in_passes(self) -> bool:
        """Return whether the model can be trained by `pass_solver`, also over partitions of the matrix."""
        raise NotImplementedError

    def trains_in_passes(self, params: Mapping[str, Any]) -> bool:
        """Return whether `pass_solver` trains it on a matrix in memory, for the arguments of scikit-learn's class."""
        return self.can_train_in_passes()

    def pass_solver(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        """Return the unfitted estimator with ``fit`` and ``fit_passes`` for the arguments of scikit-learn's class."""
        raise NotImplementedError

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        is_own = context.backend.name == "cpu" and self.trains_in_passes(params)
        return self.pass_solver(context, params) if is_own else self._of_library(context, params)

    def _of_library(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        """Return the estimator of a library, without ``n_jobs``: it has no effect on a dense matrix and one target."""
        return super().build(context, {name: value for name, value in params.items() if name != "n_jobs"})


class _LinearRegressor(LinearSettings):
    """Least squares in float64: in float32 the normal equations lose columns of small scale to rounding."""

    tasks = REGRESSION
    takes_mean: ClassVar[bool] = False  # the objective is the mean of the squared errors instead of their sum
    if TYPE_CHECKING:
        fit_intercept: bool

    def target_invariance(self, task: Task) -> Invariance:
        return "shift" if self.fit_intercept else "none"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        # scikit-learn gets private copies of the data, so they may be overwritten.
        return {**super().estimator_params(task), "copy_X": False}

    def can_train_in_passes(self) -> bool:
        return True

    def solves_products(self) -> bool:
        """Return whether the estimator of scikit-learn computes the products of the columns."""
        return False

    def pass_solver(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        from gpupipe.models.linear.least_squares import ReducedLeastSquares

        estimator = self._of_library(context, {**params, "fit_intercept": False})
        return ReducedLeastSquares(
            estimator, self.fit_intercept, self.solves_products(), self.takes_mean, params["n_jobs"], context.seen_rows
        )

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        return X if self.trains_in_passes(params) else X.astype("float64", order="F")


@MODELS.register("logistic_regression")
class LogisticRegression(LinearSettings):
    """Logistic regression, binary or multinomial.

    Runs on the CPU in gpupipe for the solver newton-cholesky, in scikit-learn's ``LogisticRegression`` for the others;
    on the GPU in cuML's, which uses a quasi-Newton method for every ``solver``. It reads the dense view.

    gpupipe's newton-cholesky takes the steps of scikit-learn's, in float64 and on all threads, without its copies of
    the matrix. Two defaults differ from scikit-learn's. ``max_iter`` is 1000, which also converges on unscaled columns.
    ``solver`` is "auto": newton-cholesky for few coefficients (as fast as lbfgs, at a slightly lower loss),
    lbfgs in float32 for many, and saga if ``l1_ratio`` is above 0.
    """

    tasks = CLASSIFICATION
    contradictions = (
        Contradiction("dual", (True,), "l1_ratio", (0.0,), False),
        Contradiction("solver", L2_SOLVERS, "l1_ratio", (0.0,), "auto"),
        Contradiction("solver", ("liblinear",), "l1_ratio", (0.0, 1.0), "auto"),
        Contradiction("solver", ("auto", *L2_SOLVERS, "saga"), "dual", (False,), "liblinear"),
    )

    C: Positive = Field(
        1.0, description="Inverse of the strength of the penalty: a smaller value is a stronger penalty."
    )
    l1_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Part of the L1 norm in the penalty: 0 is L2, 1 is L1, values between are the elastic net."
    )
    dual: bool = Field(False, description="Solve the dual problem; for liblinear with the L2 penalty. CPU only.")
    tol: Positive = Field(1e-4, description="Tolerance at which the solver stops.")
    fit_intercept: bool = Field(True, description="Fit an intercept.")
    intercept_scaling: Positive = Field(
        1, description="Value of the constant feature that stands for the intercept; for liblinear. CPU only."
    )
    class_weight: ClassWeight = None
    solver: Literal["auto", "lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"] = Field(
        "auto",
        description="Optimization algorithm. auto: saga if l1_ratio is above 0, else newton-cholesky for fewer than "
        "256 coefficients (on a GPU: and at most 100 million cells), else lbfgs.",
    )
    max_iter: PositiveInt = Field(1000, description="Maximum number of iterations of the solver.")

    def estimator_name(self, task: Task) -> str:
        return "LogisticRegression"

    def estimator_params(self, task: Task) -> dict[str, Any]:
        choose_for_task("logistic_regression", "solver", self.solver, SOLVERS, task)
        return super().estimator_params(task)

    def data_params(self, X: Matrix, context: FitContext) -> dict[str, Any]:
        if self.solver != "auto":
            return {}
        if self.l1_ratio > 0:
            return {"solver": "saga"}
        n_rows, n_columns = X.shape
        n_weights = n_columns * (context.n_classes if context.task == "multiclass" else 1)
        is_small = n_weights < min(WIDE, n_rows)
        is_small &= context.backend.name == "cpu" or n_rows * n_columns <= DEVICE_CELLS
        return {"solver": "newton-cholesky" if is_small else "lbfgs"}

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        return (NEWTON,) if self._is_own(backend) else super().modules(task, backend)

    def load_estimator(self, task: Task, backend: Backend) -> None:
        if self._is_own(backend):
            import_module(NEWTON)
        else:
            super().load_estimator(task, backend)

    def _is_own(self, backend: Backend) -> bool:
        """Return whether gpupipe trains it, unless the matrix has many columns."""
        solves_here = self.solver == "newton-cholesky" or (self.solver == "auto" and self.l1_ratio == 0)
        return backend.name == "cpu" and solves_here

    def can_train_in_passes(self) -> bool:
        return self.l1_ratio == 0 and not self.dual and self.solver in SMOOTH

    def trains_in_passes(self, params: Mapping[str, Any]) -> bool:
        return bool(params["solver"] == "newton-cholesky")

    def pass_solver(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        from gpupipe.models.linear.newton import NewtonLogisticRegression

        n_threads, seen = params["n_jobs"], context.seen_rows
        return NewtonLogisticRegression(self.C, self.fit_intercept, self.tol, self.max_iter, n_threads, seen)


@MODELS.register("linear_regression")
class LinearRegression(_LinearRegressor):
    """Ordinary least squares regression.

    Runs scikit-learn's ``LinearRegression`` on the CPU, on a triangular factor of the rows, and gpupipe's own least
    squares on the GPU, which treats columns as collinear below a relative distance of 1e-6. It reads the dense view and
    computes in float64.

    One default differs from scikit-learn's: ``tol`` is 1e-10 instead of 1e-6. At 1e-6 scikit-learn silently drops a
    column of ratios next to an income in cents.
    """

    takes_seed = False

    fit_intercept: bool = Field(True, description="Fit an intercept.")
    tol: NonNegative = Field(
        1e-10,
        description="Directions with a singular value below this fraction of the largest one are dropped. The GPU "
        "accepts the default only.",
    )
    positive: bool = Field(False, description="Constrain the coefficients to be non-negative. CPU only.")

    def estimator_name(self, task: Task) -> str:
        return "LinearRegression"


@MODELS.register("ridge")
class Ridge(_LinearRegressor):
    """Ridge regression: least squares with an L2 penalty.

    Runs scikit-learn's ``Ridge`` on the CPU, on a triangular factor of the rows (sag and saga: on all rows), and cuML's
    on the GPU. It reads the dense view and computes in float64. All defaults are scikit-learn's.
    """

    contradictions = (
        Contradiction("solver", ("lbfgs",), "positive", (True,), "auto"),
        Contradiction("solver", ("svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga"), "positive", (False,), "auto"),
    )

    alpha: NonNegative = Field(1.0, description="Strength of the L2 penalty; 0 is ordinary least squares.")
    fit_intercept: bool = Field(True, description="Fit an intercept, which is not penalized.")
    max_iter: PositiveInt | None = Field(
        None, description="Maximum number of iterations of an iterative solver. null: the default of the solver."
    )
    tol: NonNegative = Field(1e-4, description="Tolerance at which an iterative solver stops.")
    solver: Literal["auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga", "lbfgs"] = Field(
        "auto",
        description="Algorithm. auto: chosen by the data. lbfgs is for positive coefficients and runs on the CPU only.",
    )
    positive: bool = Field(False, description="Constrain the coefficients to be non-negative. CPU only.")

    def estimator_name(self, task: Task) -> str:
        return "Ridge"

    def can_train_in_passes(self) -> bool:
        return self.solver not in ("sag", "saga")  # these visit single rows

    def solves_products(self) -> bool:
        return self.solver in ("auto", "cholesky") and not self.positive and self.alpha > 0


@MODELS.register("lasso")
class Lasso(_LinearRegressor):
    """Lasso: least squares with an L1 penalty, which gives sparse coefficients.

    Runs scikit-learn's ``Lasso`` on the CPU, on a triangular factor of the rows, and cuML's on the GPU. It reads the
    dense view and computes in float64.

    One default differs from scikit-learn's: ``precompute`` is true. Tables have many more rows than columns, and with
    the Gram matrix a step does not read all rows.
    """

    takes_mean = True

    alpha: NonNegative = Field(1.0, description="Strength of the L1 penalty.")
    fit_intercept: bool = Field(True, description="Fit an intercept, which is not penalized.")
    precompute: bool = Field(True, description="Compute the Gram matrix first. Ignored on the GPU.")
    max_iter: PositiveInt = Field(1000, description="Maximum number of passes over the coefficients.")
    tol: NonNegative = Field(1e-4, description="Tolerance of the duality gap at which the solver stops.")
    positive: bool = Field(False, description="Constrain the coefficients to be non-negative. CPU only.")
    selection: Literal["cyclic", "random"] = Field(
        "cyclic", description="Order in which the coefficients are updated. random: CPU only."
    )

    def estimator_name(self, task: Task) -> str:
        return "Lasso"

    def solves_products(self) -> bool:
        return self.precompute


@MODELS.register("elastic_net")
class ElasticNet(_LinearRegressor):
    """Elastic net: least squares with L1 and L2 penalties.

    Runs scikit-learn's ``ElasticNet`` on the CPU, on a triangular factor of the rows, and cuML's on the GPU. It reads
    the dense view and computes in float64.

    One default differs from scikit-learn's: ``precompute`` is true. Tables have many more rows than columns, and with
    the Gram matrix a step does not read all rows.
    """

    takes_mean = True

    alpha: NonNegative = Field(1.0, description="Strength of both penalties together.")
    l1_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="Part of the L1 norm in the penalty: 0 is L2, 1 is L1."
    )
    fit_intercept: bool = Field(True, description="Fit an intercept, which is not penalized.")
    precompute: bool = Field(True, description="Compute the Gram matrix first. Ignored on the GPU.")
    max_iter: PositiveInt = Field(1000, description="Maximum number of passes over the coefficients.")
    tol: NonNegative = Field(1e-4, description="Tolerance of the duality gap at which the solver stops.")
    positive: bool = Field(False, description="Constrain the coefficients to be non-negative. CPU only.")
    selection: Literal["cyclic", "random"] = Field(
        "cyclic", description="Order in which the coefficients are updated. random: CPU only."
    )

    def estimator_name(self, task: Task) -> str:
        return "ElasticNet"

    def solves_products(self) -> bool:
        return self.precompute
