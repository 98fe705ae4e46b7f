"""Prediction of the memory that each step of a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from gpupipe.backends import machine
from gpupipe.backends.base import HOST_STEP
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import Config, ModelEntry
from gpupipe.features.ops.generate import Generate
from gpupipe.io.cache import TableCache
from gpupipe.io.chunks.parquet_stream import ParquetStream, open_parquet_stream
from gpupipe.io.device.obstacles import READ_ON_HOST, is_read_on_host
from gpupipe.io.input_files import InputFiles
from gpupipe.metrics.clustering import ON_THE_HOST
from gpupipe.metrics.importance import BATCH_BYTES
from gpupipe.metrics.ranked_groups import ON_THE_HOST as GROUPS_ON_THE_HOST
from gpupipe.models.linear.settings import LinearSettings
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.names import count_noun
from gpupipe.plan import costs
from gpupipe.plan.ensemble_costs import costs_of
from gpupipe.plan.preview import Preview
from gpupipe.plan.read_refusal import read_refusal
from gpupipe.tasks import View
from gpupipe.training.steps import REFIT, EvaluationStep, RunSteps, SelectionStep, TrainingRound, training_steps
from gpupipe.training.tuning.memory import tuning_bytes
from gpupipe.units import GIB

MATRIX_CELL = 4  # float32


@dataclass
class Ledger:
    """Memory in use on the host or on a device, by purpose."""

    limit: int  # available bytes
    held: dict[str, int] = field(default_factory=dict)  # purpose to bytes

    @property
    def total(self) -> int:
        """Sum of the bytes in use."""
        return sum(self.held.values())

    def hold(self, name: str, n_bytes: float) -> None:
        """Add bytes in use for a purpose."""
        self.held[name] = self.held.get(name, 0) + int(n_bytes)

    def release(self, *names: str) -> None:
        """Release all bytes of these purposes."""
        for name in names:
            self.held.pop(name, None)

    def largest(self, need: str, n_bytes: int) -> list[tuple[str, int]]:
        """Return the three largest entries, including a temporary need."""
        everything = [*self.held.items(), (need, n_bytes)]
        return sorted(everything, key=lambda item: -item[1])[:3]


@dataclass(frozen=True)
class PlannedStage:
    """Predicted stage of a run; the names are those of the measured `gpupipe.timeline.timeline.Stage`."""

    # name, device, reason: the stage, its device ("cpu", "gpu"), and the reason for the device.
    name: str
    device: str
    reason: str
    rows: int | None  # rows processed
    peak_host_bytes: int  # predicted peak memory of the process during the stage
    peak_device_bytes: int | None = None  # the same on the device; None on the CPU
    parts: int = 1  # number of chunks, partitions or batches in which the rows are processed, one at a time
    notes: tuple[str, ...] = ()


def is_kept(config: Config, files: InputFiles) -> bool:
    """Return whether the encoded table is in the cache."""
    cache = TableCache.of(config.source, config.tables, files=files)
    return cache is not None and cache.has_entry


HOST_STAGES = ("split", "latency", "export", "report")  # stages that run on the host even with a device


@dataclass
class Planner(RunSteps):
    """Planner that walks through the steps of a run and adds up bytes instead of running them."""

    on_disk: ClassVar[bool] = False  # True if the rows are on disk
    target_row: ClassVar[int] = 24  # bytes of a target: in all rows, in those of a training, and its codes of classes

    config: Config
    seen: Preview
    reason: str  # the reason for the device of the run
    host: Ledger
    device: Ledger | None = None  # None on the CPU
    # Free bytes of the host, which decide how files are read.
    available: int = field(default_factory=lambda: machine.memory().available)
    stages: list[PlannedStage] = field(default_factory=list)
    shortages: list[str] = field(default_factory=list)  # messages about stages that do not fit
    # Stages that the device cannot run, with the reason.
    refusals: list[tuple[str, EstimatorRefusal]] = field(default_factory=list)
    disk_bytes: int = 0  # peak size of the rows on disk
    lacks: Callable[[str], bool] = lacks_nothing  # returns whether a library is missing where the run would be

    def walk(self) -> None:
        """Plan every stage."""
        self.host.hold("Python and its libraries", costs.BASE)
        if self.device is not None:
            self.host.hold("Python and its libraries", costs.DEVICE_LIBRARIES)
            self.device.hold("driver and libraries", costs.DEVICE_CONTEXT)
        super().walk()

    @property
    def _ledger(self) -> Ledger:
        return self.host if self.device is None else self.device

    def _add(
        self,
        name: str,
        rows: int | None,
        host: int = 0,
        device: int = 0,
        refusal: EstimatorRefusal | None = None,
        parts: int = 1,
        notes: Sequence[str] = (),
    ) -> None:
        """Add a stage with the memory it needs in addition to the memory in use."""
        where, reason = ("cpu" if self.device is None else "gpu"), self.reason
        if self.device is not None and name.removeprefix(REFIT) in HOST_STAGES:
            where, reason = "cpu", HOST_STEP
        if self.device is not None and name == "read" and self._is_read_on_host:
            where, reason = "cpu", READ_ON_HOST
        if self.device is not None and name.endswith("evaluate"):
            if not self._has_truth:
                where, reason = "cpu", ON_THE_HOST
            elif self.seen.goal.task == "ranking":
                where, reason = "cpu", GROUPS_ON_THE_HOST
        if refusal is not None:
            self.refusals.append((name, refusal))
            where, reason = "cpu", refusal.what
            is_forbidden = self.config.device_options.fallback == "forbid"
            notes = [*notes, f"fallback: forbid {'makes' if is_forbidden else 'would make'} this an error"]
        on_device = None if self.device is None else self.device.total + device
        self.stages.append(
            PlannedStage(name, where, reason, rows, self.host.total + host, on_device, parts, tuple(notes))
        )
        self._check(name, "host", self.host, host)
        if self.device is not None:
            self._check(name, "GPU", self.device, device)

    def _check(self, name: str, what: str, ledger: Ledger, need: int) -> None:
        if (peak := ledger.total + need) > ledger.limit:
            largest = ", ".join(f"{part} {n / GIB:.2f}" for part, n in ledger.largest("this stage alone", need))
            self.shortages.append(
                f"{name}: needs {peak / GIB:.2f} GiB of the {what}, which has {ledger.limit / GIB:.2f} ({largest})"
            )

    def read(self) -> None:
        seen = self.seen
        encoded = int(seen.n_rows * seen.encoded_row)
        refusal = None if self.device is None else read_refusal(self.config, seen.files, self.lacks)
        on_device = self.device if refusal is None and not self._is_read_on_host else None
        stream = self._stream(on_device)
        arrow = int(seen.n_read * seen.arrow_row) if stream is None else stream.chunk_bytes
        texts = int(seen.n_read * seen.text_row)
        host = costs.read_bytes(seen.file_format, seen.file_bytes, arrow, texts, encoded)
        notes = [] if seen.is_exact else [f"rows estimated from file sizes and a sample of {seen.n_sample:,}"]
        if not seen.n_derived and is_kept(self.config, seen.files):
            host, notes = 0, [*notes, "encoded table found in the cache"]
        elif stream is not None:
            notes.append(stream.note)
        if self.config.source.prepare:
            notes.append("without the memory of the prepare hook, which cannot be predicted")
        (self.host if on_device is None else on_device).hold("tables as they were read", seen.events_bytes)
        n_parts = 1 if stream is None else stream.n_chunks
        if on_device is None:
            self._add("read", seen.n_rows, host, encoded, refusal, n_parts, notes)
        else:
            plain = int(seen.n_read * seen.plain_row) // n_parts
            need = seen.file_bytes // n_parts + plain + encoded
            made = int(seen.n_read * seen.arrow_row) if self.config.source.generate else 0  # on the host, then copied
            self._add("read", seen.n_rows, costs.READ_BESIDE + made, need, parts=n_parts, notes=notes)
        self.host.hold("Python and its libraries", costs.READ_BESIDE)  # kept by Arrow's pool
        if seen.n_derived:  # columns are derived from the raw rows, on a device from their keys alone
            ledger, row = (self.host, seen.arrow_row) if on_device is None else (on_device, costs.DERIVED_KEY)
            ledger.hold("tables as they were read", seen.n_read * row)
        self._ledger.hold("encoded table", encoded)

    @property
    def _is_read_on_host(self) -> bool:
        return is_read_on_host(self.seen.files, self.config.tables)

    def _stream(self, device: Ledger | None) -> ParquetStream | None:
        """Return the chunks to be read, or None if all rows are read at once or come from the cache."""
        config, files = self.config, self.seen.files
        if self.seen.n_derived or is_kept(config, files):
            return None
        free = self.available if device is None else device.limit - device.total
        return open_parquet_stream(config.source, config.tables, free, on_device=device is not None, files=files.source)

    def derive(self) -> None:
        seen = self.seen
        host = costs.DERIVED_ROW * self.seen.n_rows
        device = 0
        if self.device is not None:
            n_events = max(seen.n_rows, seen.n_events)
            host, device = 0, costs.DERIVED_EVENT * n_events + costs.DERIVED_CELL * seen.n_derived * seen.n_rows
        self._add("derive", seen.n_rows, host, device, notes=[count_noun(seen.n_derived, "column")])
        for ledger in filter(None, (self.host, self.device)):
            ledger.release("tables as they were read")

    def split(self) -> None:
        shares = self.seen.shares
        self.host.hold(
            "target and row numbers", (self.target_row * self._n_targets + 10) * self.seen.n_rows
        )  # two masks
        if shares.n_folds != 1 and self.device is None:
            self.host.hold("libraries of the models", costs.LIBRARIES)  # scikit-learn draws the folds
        n_folds = shares.n_folds or self.config.split.cv
        parts = f"{n_folds} folds" if n_folds != 1 else f"{shares.test:.0%} test rows"
        self._add("split", self.seen.n_rows, 8 * self.seen.n_rows, notes=[parts])

    def training_steps(self) -> Iterable[SelectionStep]:
        shares, limit = self.seen.shares, self.config.evaluate.max_latency
        return training_steps(shares.n_folds, shares.validation is not None, limit is not None)

    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the models of a round; for a refit the one that needs most memory, because the best is not known."""
        if not step.is_refit:
            return self.seen.entries
        heaviest, is_tuned_again = self._heaviest(self.seen.shares.train), self.seen.shares.n_folds > 1
        return [heaviest if is_tuned_again else heaviest.model_copy(update={"tune": None})]

    def train_round(self, step: TrainingRound) -> None:
        """Plan a round; of several folds only the last one, with the memory that the others still use."""
        shares, entries = self.seen.shares, self.seen.entries
        if not step.is_refit and step.fold < shares.n_folds - 1:
            return
        if not step.is_refit and step.fold:
            width = sum(self._columns(view) for view in self._views(entries))
            tested = int(step.fold * shares.test * self.seen.n_rows)
            self._ledger.hold("matrices of the rows to predict", MATRIX_CELL * width * tested)
            self._ledger.hold("predictions", 8 * self._outputs * tested * len(entries))
        super().train_round(replace(step, label=self._label(step)))
        self._ledger.release("training matrix", "encoded parts")

    def _label(self, step: TrainingRound) -> str:
        n_folds = self.seen.shares.n_folds
        return f"each of {n_folds} folds: " if n_folds > 1 and not step.is_refit else step.label

    def evaluate(self, step: EvaluationStep) -> None:
        shares = self.seen.shares
        n_rows = int((1.0 if shares.n_folds != 1 else shares.test) * self.seen.n_rows)
        self._add(f"{step.label}evaluate", n_rows, *self._there(self._measuring(n_rows)))

    def explain(self) -> None:
        shares, settings = self.seen.shares, self.config.evaluate.importance_settings
        n_tested = int(shares.test * self.seen.n_rows)
        n_sample = 0 if settings is None or not self._has_truth else min(settings.rows, n_tested)
        sample = MATRIX_CELL * max(self._columns(view) for view in self._views(self.seen.entries)) * n_sample
        n_drawn = (self.seen.n_rows if shares.n_folds != 1 else n_tested) if self.config.report.enabled else 0
        batches = machine.n_threads() * BATCH_BYTES if n_sample else 0
        host, device = self._there(max(sample + batches, self._measuring(n_drawn)))  # copies are where the model is
        has_trees = any(not isinstance(entry.params, LinearSettings | NeuralSettings) for entry in self.seen.entries)
        if self.config.report.enabled:
            self.host.hold("compiled explanations", costs.COMPILED if has_trees else 0)
        self._add("explain", None, host + sample, device)
        self.host.hold("Python and its libraries", costs.EXPORT)

    def measure_latency(self, step: SelectionStep) -> None:
        self._add(f"{step.label}latency", None, self._exporting)

    def export(self) -> None:
        self._add("export", None, self._exporting)

    @property
    def _exporting(self) -> int:
        """Bytes needed to export the largest model."""
        return max(costs_of(entry, self.seen).export(self.seen.n_rows) for entry in self.seen.entries)

    def report(self) -> None:
        self.host.hold("Python and its libraries", costs.REPORT)
        self._add("report", None)

    def _measuring(self, n_rows: int) -> int:
        """Return the bytes needed to compute the metrics of `n_rows` predictions."""
        return (costs.EVALUATE_ROW + costs.EVALUATE_CLASS * (self._outputs - 1)) * n_rows if self._has_truth else 0

    def _there(self, need: int) -> tuple[int, int]:
        """Return the bytes needed on host and device for work that runs where the tables are."""
        return (need, 0) if self.device is None else (0, need)

    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        n_train, n_parts = self._n_rows(step)
        views = self._views(entries)
        ledger = self._ledger
        n_predicted = sum(n_parts)
        row = self.seen.encoded_row
        width = sum(self._columns(view) for view in views)
        ledger.hold("training matrix", MATRIX_CELL * width * n_train)
        before = max(int(row * n_train), int(row * n_predicted) + MATRIX_CELL * width * n_predicted)
        before += sum(op.working_bytes(n_train, width) for op in self.config.features if isinstance(op, Generate))
        users = {view: ", ".join(e.label for e in entries if e.params.view == view) for view in views}
        notes = [f"{count_noun(self._columns(view), 'column')} for {names}" for view, names in users.items()]
        notes += ["planned for the model that needs most memory; the best is not known yet"] if step.is_refit else []
        self._add(f"{step.label}features", n_train + n_predicted, *self._there(before), notes=notes)
        self._free(before)
        ledger.hold("encoded parts", row * n_predicted)
        ledger.hold("matrices of the rows to predict", MATRIX_CELL * width * n_predicted)

    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        n_rows, _ = self._n_rows(step)
        cost, stage = costs_of(entry, self.seen), f"{step.label}train {entry.label}"
        refusal = None if self.device is None else cost.refusal(self.lacks)
        on_device = self.device is not None and refusal is None
        for library, n_bytes in cost.libraries(on_device).items():
            if library not in self.host.held:
                self.host.hold(library, n_bytes)
        searched = tuning_bytes(entry, n_rows, cost.n_columns, self._ledger.limit - self._ledger.total)
        if on_device:
            notes = ["device memory from array shapes, without the working memory of the library", *cost.notes]
            self._add(stage, n_rows, device=cost.device_training(n_rows) + searched, notes=notes)
            return
        moved = 0 if self.device is None else MATRIX_CELL * n_rows * cost.n_columns
        need = cost.training(n_rows)
        self._add(stage, n_rows, moved + need + searched, refusal=refusal, notes=cost.notes)
        self.host.hold("trained models", cost.kept(n_rows))
        self._free(need)

    def _free(self, n_bytes: int) -> None:
        """Hold what the C library keeps of `n_bytes` that a stage has freed."""
        self.host.held["freed memory"] = max(self.host.held.get("freed memory", 0), min(n_bytes, costs.FREED))

    def predict(self, step: TrainingRound, entry: ModelEntry) -> None:
        _, n_parts = self._n_rows(step)
        cost = costs_of(entry, self.seen)
        rows = max(n_parts)
        if entry.label == self.entries_of(step)[-1].label:
            self._ledger.release("training matrix")
        on_host = self.stages[-1].device == "cpu"
        need, block = cost.predicting(rows, on_host)
        moved = MATRIX_CELL * rows * cost.n_columns if on_host and self.device is not None else 0
        self._ledger.hold("predictions", 8 * self._outputs * sum(n_parts))
        refusal = self.refusals[-1][1] if on_host and self.device is not None else None
        sizes = (need + moved, 0) if on_host else (0, need)
        self._add(f"{step.label}predict {entry.label}", sum(n_parts), *sizes, refusal, parts=-(-rows // block))

    def _n_rows(self, step: TrainingRound) -> tuple[int, list[int]]:
        """Return the number of training rows of a round, and of each set of rows that it predicts."""
        shares = self.seen.shares.of_rows()
        return int(shares[step.rows] * self.seen.n_rows), [int(shares[part] * self.seen.n_rows) for part in step.parts]

    def _heaviest(self, share: float) -> ModelEntry:
        """Return the model whose training needs most memory."""
        n_rows = int(share * self.seen.n_rows)

        def weight(entry: ModelEntry) -> int:
            cost = costs_of(entry, self.seen)
            return MATRIX_CELL * n_rows * cost.n_columns + cost.training(n_rows)

        return max(self.seen.entries, key=weight)

    def _views(self, entries: Sequence[ModelEntry]) -> list[View]:
        return list(dict.fromkeys(entry.params.view for entry in entries))

    def _columns(self, view: View) -> int:
        return int(self.seen.matrices[view].shape[1])

    @property
    def _n_targets(self) -> int:
        return max(1, len(self.seen.goal.targets))

    @property
    def _has_truth(self) -> bool:
        return bool(self.seen.goal.names)

    @property
    def _outputs(self) -> int:
        """Outputs of a model per row."""
        goal = self.seen.goal
        return goal.n_outputs or (goal.n_classes if goal.n_classes > 2 else 1)
