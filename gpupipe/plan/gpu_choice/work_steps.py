"""Work of each stage of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpupipe.config import Config, ModelEntry
from gpupipe.io.device.obstacles import is_read_on_host
from gpupipe.models.best import Best
from gpupipe.plan.ensemble_costs import costs_of
from gpupipe.plan.gpu_choice import work as counts
from gpupipe.plan.gpu_choice.work import Work
from gpupipe.plan.model_costs import EstimatorCosts, ModelCosts, NetworkCosts
from gpupipe.plan.preview import Preview
from gpupipe.plan.read_refusal import read_refusal
from gpupipe.training.steps import (
    EvaluationStep,
    LatencyMeasurement,
    RunSteps,
    SelectionStep,
    TrainingRound,
    training_steps,
)

MATRIX_CELL = 4  # float32
# scikit-learn's class name without the task → the kind of its rate
KINDS = {
    "LogisticRegression": "logistic", "LinearRegression": "least squares", "Ridge": "least squares",
    "Lasso": "least squares", "ElasticNet": "least squares", "HistGradientBoosting": "hist boosting",
    "XGB": "xgboost", "LGBM": "lightgbm", "CatBoost": "catboost", "RandomForest": "random forest",
    "ExtraTrees": "extra trees",
}  # fmt: skip
BOOSTING = ("hist boosting", "xgboost", "lightgbm", "catboost")
FORESTS = ("random forest", "extra trees")


@dataclass(frozen=True)
class StageWork:
    """Work of one stage.

    `name` is as in timeline.json. `kind` is the kind of algorithm, which has one rate; "" if the work is not known.
    `is_on_device` is false on the host, and for a stage that a device cannot run. `moved_bytes` are copied between host
    and device. If `is_limit`, the work is a limit: a model may stop early.
    """

    name: str
    kind: str
    work: Work
    is_on_device: bool
    moved_bytes: float = 0.0
    is_limit: bool = False


@dataclass
class WorkSteps(RunSteps):
    """Steps of a run that count work instead of running.

    If `on_device`, the algorithms of a device are counted. `stages` are in the order of the run.
    """

    config: Config
    seen: Preview
    on_device: bool = False
    stages: list[StageWork] = field(default_factory=list)

    def _add(
        self,
        name: str,
        kind: str,
        work: Work,
        on_device: bool | None = None,
        moved: float = 0.0,
        is_limit: bool = False,
    ) -> None:
        there = self.on_device if on_device is None else on_device
        self.stages.append(StageWork(name, kind, work, there, moved if self.on_device else 0.0, is_limit))

    def _unknown(self, name: str) -> None:
        self._add(name, "", Work(), on_device=False)

    def read(self) -> None:
        seen, source = self.seen, self.config.source
        kind = f"read {seen.file_format or ('generated' if source.generate else 'frame')}"
        encoded = seen.n_rows * seen.encoded_row
        if source.prepare or source.entities or seen.n_derived or self.config.tables:
            self._unknown("read")
            return
        there = self.on_device and read_refusal(self.config, seen.files) is None
        there = there and not is_read_on_host(seen.files, self.config.tables)
        n_bytes = seen.file_bytes + seen.n_read * seen.arrow_row + encoded
        moved = seen.file_bytes if there else encoded
        self._add("read", kind, Work(n_bytes=float(n_bytes), n_steps=1), there, float(moved))

    def derive(self) -> None:
        self._unknown("derive")

    def split(self) -> None:
        self._unknown("split")

    def training_steps(self) -> Iterable[SelectionStep]:
        shares, limit = self.seen.shares, self.config.evaluate.max_latency
        return training_steps(shares.n_folds, shares.validation is not None, limit is not None)

    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the models of a round; for a refit the one with most work, because the best is not known."""
        if not step.is_refit:
            return self.seen.entries
        n_rows = self._n_rows(step)[0]
        return [max(self.seen.entries, key=lambda entry: self._training(entry, n_rows)[1].weight)]

    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        n_train, n_predicted = self._n_rows(step)
        total = Work()
        for view in dict.fromkeys(entry.params.view for entry in entries):
            program, width = self.seen.features[view].program, int(self.seen.matrices[view].shape[1])
            total += counts.features(
                n_train,
                n_train + n_predicted,
                self.seen.encoded_row,
                len(program.instructions),
                width,
                on_device=self.on_device,
            )
        self._add(f"{step.label}features", "features", total)

    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        n_rows = self._n_rows(step)[0]
        cost = costs_of(entry, self.seen)
        there = self.on_device and cost.refusal() is None
        kind, work, is_limit = self._training(entry, n_rows, there)
        moved = 0.0 if there else float(MATRIX_CELL * n_rows * cost.n_columns)
        self._add(f"{step.label}train {entry.label}", kind, work, there, moved, is_limit)

    def predict(self, step: TrainingRound, entry: ModelEntry) -> None:
        n_trained, n_rows = self._n_rows(step)
        cost = costs_of(entry, self.seen)
        there = self.on_device and cost.refusal() is None
        kind, work = self._prediction(cost, n_trained, n_rows)
        self._add(f"{step.label}predict {entry.label}", kind, work, there)

    def evaluate(self, step: EvaluationStep) -> None:
        shares = self.seen.shares
        n_rows = int((1.0 if shares.n_folds != 1 else shares.test) * self.seen.n_rows)
        n_sets = len(self.seen.entries) * (1 if step.label else 2)
        n_metrics = max(1, len(self.config.evaluate.metrics or ())) * n_sets
        self._add(f"{step.label}evaluate", "evaluate", counts.evaluation(n_rows, self._outputs, n_metrics))

    def measure_latency(self, step: LatencyMeasurement | SelectionStep) -> None:
        self._unknown(f"{step.label}latency")

    def explain(self) -> None:
        self._unknown("explain")

    def export(self) -> None:
        self._unknown("export")

    def report(self) -> None:
        self._unknown("report")

    def _training(self, entry: ModelEntry, n_rows: int, there: bool = False) -> tuple[str, Work, bool]:
        """Return the kind and work of a training, and whether it may stop early."""
        cost = costs_of(entry, self.seen)
        if isinstance(cost, NetworkCosts):
            return _network_training(cost, n_rows) if is_counted(cost) else ("", Work(), False)
        if not isinstance(cost, EstimatorCosts) or isinstance(entry.params, Best) or entry.tune is not None:
            return "", Work(), False
        params, width = cost.params(n_rows), cost.n_columns
        stops = bool(entry.params.stops_early(n_rows))
        kind = kind_of(cost.name)
        if kind in BOOSTING:
            by_leaf = kind in ("hist boosting", "lightgbm")
            found = counts.boosting(params, n_rows, width, self._outputs, by_leaf=by_leaf)
        elif kind in FORESTS:
            is_random = kind == "extra trees"
            found = counts.forest(params, n_rows, width, on_device=there, is_random=is_random)
        elif kind == "logistic":
            found = counts.logistic(params, n_rows, width, self._outputs, on_device=there)
        elif kind == "least squares":
            found = counts.least_squares(cost.name, n_rows, width)
        else:
            return "", Work(), False
        return kind, found.times(self._n_models(entry) * (2 if stops else 1)), stops

    def _prediction(self, cost: ModelCosts, n_trained: int, n_rows: int) -> tuple[str, Work]:
        entry = cost.entry
        if isinstance(cost, NetworkCosts) and is_counted(cost):
            return "predict network", counts.network_prediction(cost.architecture, n_rows)
        if not isinstance(cost, EstimatorCosts) or isinstance(entry.params, Best):
            return "", Work()
        params = cost.params(n_trained)
        width = cost.n_columns
        kind = kind_of(cost.name)
        if kind in BOOSTING or kind in FORESTS:
            n_outputs = self._outputs if kind in BOOSTING else 1
            found = counts.tree_prediction(params, n_rows, n_trained, n_outputs)
            return f"predict {kind}", found.times(self._n_models(entry))
        if kind not in ("logistic", "least squares"):
            return "", Work()
        found = counts.linear_prediction(n_rows, width, self._outputs)
        return "predict linear", found.times(self._n_models(entry))

    def _n_models(self, entry: ModelEntry) -> int:
        """Return the number of models that are trained one after the other: one per quantile and target."""
        goal = self.seen.goal
        n_targets = 1 if entry.params.learns_jointly else max(1, len(goal.targets))
        return n_targets * max(1, len(goal.quantiles))

    def _n_rows(self, step: TrainingRound) -> tuple[int, int]:
        """Return the training rows of a round, and the rows that it predicts."""
        shares = self.seen.shares.of_rows()
        n_rows = self.seen.n_rows
        return int(shares[step.rows] * n_rows), int(sum(shares[part] for part in step.parts) * n_rows)

    @property
    def _outputs(self) -> int:
        goal = self.seen.goal
        return goal.n_outputs or (goal.n_classes if goal.n_classes > 2 else 1)


def kind_of(name: str) -> str:
    """Return the kind of an estimator by its class name; "" if its work is not known."""
    for task in ("Classifier", "Regressor", "Ranker"):
        name = name.removesuffix(task)
    return KINDS.get(name, "")


def is_counted(cost: NetworkCosts) -> bool:
    """Return whether the work of a network is known; that of transformers was not measured."""
    return cost.architecture.kind != "ft_transformer"


def _network_training(cost: NetworkCosts, n_rows: int) -> tuple[str, Work, bool]:
    """Return the work of the two trainings of a network: to find the number of epochs, and on all rows."""
    settings = cost.settings
    n_fitted = int(n_rows * (1.0 - settings.validation_fraction))
    total = Work()
    for n in (n_fitted, n_rows):
        n_batches = -(-n // settings.rows_per_batch(n))
        total += counts.network(cost.architecture, n, settings.epochs, n_batches)
    return "network", total, settings.patience is not None
