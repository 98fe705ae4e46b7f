"""Training loop of a network, with early stopping, checkpoints after each epoch and micro-batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import ConfigError
from gpupipe.models.context import DeadlineReached, TimedSafePoint, never_stop
from gpupipe.models.neural.embeddings import PeriodicEmbedding
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.perceptron import (
    InputScale,
    MemberHeads,
    NtkLinear,
    ParametricActivation,
    combine_members,
)
from gpupipe.models.neural.training_spec import TrainingSpec
from gpupipe.models.progress import ProgressReport, ShowProgress, show_nothing
from gpupipe.tasks import TargetSpec, Task
from gpupipe.tensors.batch import ARRAYS, TensorBatch

if TYPE_CHECKING:
    from gpupipe.models.neural.checkpoint import Checkpoint
    from gpupipe.models.neural.ranks.collectives import Communicator
    from gpupipe.tensors.batches import Batches

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
NTK_BETAS = 0.9, 0.95
# Factors of the learning rate and of the weight decay, which AdamW multiplies by the rate.
NTK_FACTORS = {InputScale: (6.0, 6.0), ParametricActivation: (0.1, 0.1), PeriodicEmbedding: (0.1, 0.1)}


@dataclass
class Epoch:
    """Mean loss of the training rows, measured during the epoch, and of the validation rows after it (NaN: none)."""

    training: float
    validation: float


@dataclass
class Progress:
    """Progress of a training."""

    epochs: list[Epoch] = field(default_factory=list)
    best: int = -1  # index of the best epoch; -1 before the first
    weights: dict[str, Tensor] = field(default_factory=dict)  # weights of the best epoch
    micro_batch: int = 0  # number of rows that pass through the network at once
    resumed: int = 0  # number of epochs restored from a checkpoint
    damage: str = ""  # the reason that a checkpoint could not be read; "" if it could, or there was none

    def is_over(self, spec: TrainingSpec) -> bool:
        """Return whether all epochs are complete, or `patience` is exhausted."""
        if spec.n_epochs is not None:
            return len(self.epochs) >= spec.n_epochs
        waited = len(self.epochs) - 1 - self.best
        epochs, patience = spec.model.epochs, spec.model.patience
        return len(self.epochs) >= epochs or (patience is not None and waited >= patience)


@dataclass
class Pace:
    """Position in the schedules of a training of `n_steps` steps, which a deadline can shorten."""

    n_steps: int
    start: tuple[int, float] = (0, 0.0)  # a step, and its fraction of the schedules

    def fraction(self, step: int) -> float:
        """Return the position of a step in the schedules, from 0 to 1."""
        first, reached = self.start
        return min(1.0, reached + (1.0 - reached) * (step - first) / self.n_steps)

    def shorten(self, step: int, n_steps: int) -> None:
        """End the schedules `n_steps` after a step, unless they end earlier."""
        if n_steps < self.start[0] + self.n_steps - step:
            self.start, self.n_steps = (step, self.fraction(step)), max(1, n_steps)


def flat_cosine(fraction: float) -> float:
    """Return 1 in the first half of a schedule, then half a cosine down to 0."""
    return 1.0 if fraction <= 0.5 else 0.5 * (1.0 + math.cos(math.pi * (2.0 * fraction - 1.0)))


class Trainer:
    """One training of one network.

    Parameters
    ----------
    network : Network
        The network on its device; at the end it has the best weights.
    training : Batches
        Batches of this process.
    validation : iterable of TensorBatch
        Batches of the held-out rows of this process; none if `spec` has the number of epochs.
    rows_of_steps : sequence of int
        Number of rows of each step of an epoch, of all processes together. `training` has at least one batch per step;
        further batches are skipped.
    mean_weight : float
        Mean weight of the training rows of all processes.
    """

    def __init__(
        self,
        network: Network,
        spec: TrainingSpec,
        training: Batches,
        validation: Iterable[TensorBatch[Tensor]],
        rows_of_steps: Sequence[int],
        mean_weight: float,
        processes: Communicator,
    ) -> None:
        self.network = network
        self.spec = spec
        self.settings = spec.model
        self.processes = processes
        self.training, self.validation = training, validation
        self.rows_of_steps, self.mean_weight = rows_of_steps, mean_weight
        self.device = next(network.parameters()).device
        # Each row has the same weight in the loss of a step, on whichever process; PyTorch averages over processes.
        self.shared = processes.wrap(network)
        self.forward = torch.compile(self.shared) if self.settings.compile else self.shared
        groups = _parameter_groups(network)
        self.is_ntk = network.architecture.parametrization == "ntk"
        self.optimizer = torch.optim.AdamW(
            groups, lr=self.settings.learning_rate, betas=NTK_BETAS if self.is_ntk else (0.9, 0.999)
        )
        self.dropouts = [(each, each.p) for each in network.modules() if isinstance(each, nn.Dropout)]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=spec.precision == "fp16")
        self.progress = Progress()
        self._levels = torch.tensor(spec.quantiles, device=self.device) if spec.quantiles else None
        self._at = 0, 0  # the current epoch, and its completed steps
        self._pace = Pace(self.settings.epochs * len(rows_of_steps))

    def run(
        self,
        checkpoint: Checkpoint | None = None,
        safe_point: Callable[[str], None] = never_stop,
        show_progress: ShowProgress = show_nothing,
    ) -> Progress:
        """Train to the end, from `checkpoint` if it has a state, and load the best weights into the network.

        Rank 0 has the checkpoint, and broadcasts its content. `safe_point` is called after each epoch except the last,
        and stops the training by raising; after `DeadlineReached`, a single process keeps the best epoch so far.
        `show_progress` displays the epochs; see `gpupipe.models.progress`. Raise ConfigError if the loss is NaN in
        every epoch.
        """
        state = self.processes.broadcast(None if checkpoint is None else checkpoint.load())
        if state is not None:
            self.load_state(state)
        if checkpoint is not None:
            self.progress.damage = checkpoint.damage
        if state is None or state["processes"] != self.processes.size:
            self._find_micro_batch()
        n_before, start = len(self.progress.epochs), time.perf_counter()
        with show_progress(self.report):
            while not self.progress.is_over(self.spec):
                self._epoch(len(self.progress.epochs))
                if checkpoint is not None:
                    checkpoint.save(self.state())
                each = (time.perf_counter() - start) / (len(self.progress.epochs) - n_before)
                if not self.progress.is_over(self.spec) and self._must_end(safe_point, each):
                    break
        if self.progress.best < 0:
            last = self.progress.epochs[-1]
            rows, loss = ("held-out", last.validation) if self.spec.n_epochs is None else ("training", last.training)
            raise ConfigError(
                f"the loss of the {rows} rows is {loss} in every epoch",
                fix="lower learning_rate, or remove NaN and infinite values from the features",
            )
        self.network.load_state_dict(self.progress.weights)
        return self.progress

    def _must_end(self, safe_point: Callable[[str], None], epoch_seconds: float) -> bool:
        """Call the safe point, and return whether the training must end with the best epoch so far.

        With a deadline, the training ends with the last epoch that is predicted to fit, as do its schedules.
        """
        # Only held-out rows choose an epoch; other processes would wait for the next one.
        is_fixed = self.spec.n_epochs is not None or self.processes.size > 1
        try:
            safe_point(f"after epoch {len(self.progress.epochs)}")
        except DeadlineReached:
            if self.progress.best < 0 or is_fixed:
                raise
            return True
        if is_fixed or not isinstance(safe_point, TimedSafePoint):
            return False
        fitting = safe_point.seconds_left / epoch_seconds
        if fitting < self.settings.epochs:
            n_steps = len(self.rows_of_steps)
            self._pace.shorten(len(self.progress.epochs) * n_steps, int(fitting) * n_steps)
        return fitting < 1.0 and self.progress.best >= 0

    def report(self) -> ProgressReport:
        """Return the number of completed epochs, with the latest loss of the held-out rows."""
        n_epochs, fixed = len(self.progress.epochs), self.spec.n_epochs
        may_end_early = fixed is None and self.settings.patience is not None
        loss = self.progress.epochs[n_epochs - 1].validation if n_epochs and fixed is None else None
        number, step = self._at
        fraction = step / len(self.rows_of_steps) if number == n_epochs else 0.0
        name = "validation loss" if fixed is None else ""
        return ProgressReport(n_epochs, fixed or self.settings.epochs, "epoch", may_end_early, name, loss, fraction)

    def _epoch(self, number: int) -> None:
        self.training.set_epoch(number)
        self.shared.train()
        # Dropout masks depend on seed, epoch and rank only, so that a resumed epoch is the same.
        torch.manual_seed((self.spec.seed << 20) + (number << 8) + self.processes.rank)
        loss = torch.zeros((), device=self.device)
        pace = self._pace
        if self.is_ntk and not self.settings.compile:  # a compiled network has the rates as constants
            for module, rate in self.dropouts:
                module.p = rate * flat_cosine(pace.fraction(number * len(self.rows_of_steps)))
        # Steps first: zip then stops without making a further batch.
        for step, (n, batch) in enumerate(zip(self.rows_of_steps, self.training, strict=False)):
            self._set_rates(number * len(self.rows_of_steps) + step)
            loss += self._step(batch, n) * n
            self._at = number, step + 1
        found = torch.stack([loss / (sum(self.rows_of_steps) * self.processes.size), *self._validation_loss()])
        training, total, weight = self.processes.all_reduce_sum(found).tolist()
        self.progress.epochs.append(Epoch(training, total / weight if weight else math.nan))
        if self._is_best(self.progress.epochs[-1]):
            self.progress.best = number
            self.progress.weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def _is_best(self, epoch: Epoch) -> bool:
        if self.spec.n_epochs is not None:
            return math.isfinite(epoch.training)
        least = self.progress.epochs[self.progress.best].validation if self.progress.best >= 0 else math.inf
        return epoch.validation < least

    def _step(self, batch: TensorBatch[Tensor], n_rows: int) -> Tensor:
        """Update the weights once; return the part of this process in the mean loss of the step, times their number."""
        # With several processes a retry would leave the others waiting.
        while (loss := self._try(batch, n_rows, may_fail=self.processes.size == 1)) is None:
            self._halve()
        if self.settings.gradient_clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def _try(self, batch: TensorBatch[Tensor], n_rows: int, may_fail: bool) -> Tensor | None:
        """Return the result of `_backward`, or None if memory was short; its allocations are freed by then."""
        self.optimizer.zero_grad(set_to_none=True)
        try:
            return self._backward(batch, n_rows)
        except Exception as error:
            if may_fail and self.progress.micro_batch > 1 and is_out_of_memory(error):
                return None
            raise

    def _backward(self, batch: TensorBatch[Tensor], n_rows: int) -> Tensor:
        """Accumulate the gradients of a batch by micro-batches; return its loss."""
        total = torch.zeros((), device=self.device)
        for part, is_last in _parts(batch, self.progress.micro_batch):
            with nullcontext() if is_last else self.processes.no_sync(self.shared):
                loss = self._losses(self.forward, part).sum() * (self.processes.size / (n_rows * self.mean_weight))
                self.scaler.scale(loss).backward()
            total += loss.detach()
        return total

    def _losses(self, network: Callable[..., Tensor], batch: TensorBatch[Tensor], is_training: bool = True) -> Tensor:
        """Return the weighted loss of each row: the mean loss of the members in training, else the loss of their mean.

        Members then learn to be right by themselves, and the epoch with their best mean is chosen.
        """
        with self._autocast():
            score = network(batch.features, batch.ids).float()
        assert batch.target is not None
        spec, target = self.spec, batch.target
        members = 1
        if score.ndim == 3 and is_training:
            members = score.shape[1]
            score, target = score.flatten(0, 1), target.repeat_interleave(members, dim=0)
        elif score.ndim == 3:
            score = combine_members(score, spec.task, spec.targets)
        losses = (
            several_losses(spec.targets, score, target)
            if spec.targets
            else row_losses(spec.task, score, target, self._levels)
        )
        if members > 1:
            losses = losses.unflatten(0, (-1, members)).mean(dim=1)
        return losses if batch.weight is None else losses * batch.weight

    @torch.no_grad()
    def _validation_loss(self) -> tuple[Tensor, Tensor]:
        """Return the sum of the losses of the validation rows, and the sum of their weights."""
        self.shared.eval()
        total, weight = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for batch in self.validation:
            for part, _ in _parts(batch, self.progress.micro_batch):
                total += self._losses(self.network, part, is_training=False).sum()
            weight += len(batch) if batch.weight is None else batch.weight.sum()
        return total, weight

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = PRECISIONS.get(self.spec.precision)
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype)

    def _find_micro_batch(self) -> None:
        """Find the number of rows that fit through the network at once: a whole batch, halved until it fits.

        A first batch passes through without updating the weights. Gradients of micro-batches are accumulated, so the
        result is the same except for rounding and dropout masks.
        """
        self.training.set_epoch(0)
        batch = next(iter(self.training))
        self.progress.micro_batch = len(batch)
        with self.processes.no_sync(self.shared):
            while self._try(batch, len(batch), may_fail=True) is None:
                self._halve()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.micro_batch = self.processes.all_reduce_min(self.progress.micro_batch, self.device)

    def _halve(self) -> None:
        self.progress.micro_batch = (self.progress.micro_batch + 1) // 2
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _set_rates(self, step: int) -> None:
        """Set the learning rate and weight decay of each group for a step, counted over all epochs."""
        settings, fraction = self.settings, self._pace.fraction(step)
        rate = settings.learning_rate * self._rate(step, fraction)
        decay = settings.weight_decay * (flat_cosine(fraction) if self.is_ntk else 1.0)
        for group in self.optimizer.param_groups:
            group["lr"], group["weight_decay"] = rate * group["rate_factor"], decay * group["decay_factor"]

    def _rate(self, step: int, fraction: float) -> float:
        """Return the learning rate of a step relative to the highest rate, at a fraction of the schedule."""
        if self.settings.schedule == "coslog4":
            return 0.5 * (1.0 - math.cos(2.0 * math.pi * math.log2(1.0 + 15.0 * fraction)))
        steps = self.settings.epochs * len(self.rows_of_steps)
        warmup = max(1, int(self.settings.warmup * steps))
        rising = min(1.0, (step + 1) / warmup)
        if self.settings.schedule == "constant":
            return rising
        done = min(1.0, max(0.0, fraction * steps - warmup) / max(1, steps - warmup))
        return min(rising, 0.5 * (1.0 + math.cos(math.pi * done)))

    def state(self) -> dict[str, Any]:
        """Return the state from which training can resume after the last epoch: tensors and plain values."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epochs": [asdict(epoch) for epoch in self.progress.epochs],
            "best": self.progress.best,
            "weights": self.progress.weights,
            "micro_batch": self.progress.micro_batch,
            "processes": self.processes.size,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        epochs = [Epoch(**epoch) for epoch in state["epochs"]]
        self.progress = Progress(epochs, state["best"], state["weights"], state["micro_batch"], len(epochs))


def row_losses(task: Task, score: Tensor, target: Tensor, quantiles: Tensor | None = None) -> Tensor:
    """Return the loss of each row, float32, shape (n,).

    - `task`: binary: log loss of the logit. multiclass: cross-entropy of the logits. regression: squared error of the
      standardized target. quantile: mean pinball loss over the quantiles of the standardized target.
    - `score`: Tensor of float32, shape (n, n_outputs)
    - `target` (Tensor, shape (n,)): int64 class codes, or float32 values
    - `quantiles` (Tensor of float32, shape (n_outputs,)): levels of the quantiles
    """
    if task == "multiclass":
        return F.cross_entropy(score, target, reduction="none")
    if task == "binary":
        return F.binary_cross_entropy_with_logits(score[:, 0], target.to(score.dtype), reduction="none")
    if quantiles is not None:
        error = target[:, None] - score
        return torch.maximum(quantiles * error, (quantiles - 1.0) * error).mean(dim=1)
    return F.mse_loss(score[:, 0], target, reduction="none")


def several_losses(targets: Sequence[TargetSpec], score: Tensor, target: Tensor) -> Tensor:
    """Return the mean over several targets of the loss of each row, float32, shape (n,).

    `score` has the outputs of each target, in order; `target`, float32, shape (n, n_targets), has class codes or
    standardized values.
    """
    losses, scores = torch.zeros_like(score[:, 0]), score.split([each.width for each in targets], dim=1)
    for each, own, column in zip(targets, scores, target.T, strict=True):
        losses = losses + row_losses(each.task, own, column.long() if each.task == "multiclass" else column)
    return losses / len(targets)


def take_rows(batch: TensorBatch[Tensor], rows: Tensor | slice) -> TensorBatch[Tensor]:
    """Return the given rows of a batch of tensors; for row numbers, the arrays are row-major copies."""
    arrays = {name: array[rows] for name in ARRAYS if (array := getattr(batch, name)) is not None}
    return TensorBatch(**arrays)


def _parts(batch: TensorBatch[Tensor], n_rows: int) -> Iterator[tuple[TensorBatch[Tensor], bool]]:
    """Yield a batch in parts of at most `n_rows` rows, each with whether it is the last."""
    for start in range(0, len(batch), n_rows):
        stop = start + n_rows
        yield (batch if n_rows >= len(batch) else take_rows(batch, slice(start, stop))), stop >= len(batch)


def _parameter_groups(network: Network) -> list[dict[str, Any]]:
    """Return the parameters by their factors of learning rate and weight decay.

    In the standard parametrization, weight matrices decay; biases, norms, scales and embeddings do not. RealMLP's
    factors are those of its reference implementation.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    is_ntk = network.architecture.parametrization == "ntk"
    for module in network.modules():
        for name, weights in module.named_parameters(recurse=False):
            factors = (1.0, float(isinstance(module, nn.Linear | MemberHeads) and name == "weight"))
            if is_ntk and isinstance(module, NtkLinear):
                factors = (1.0, 1.0) if name == "weight" else (0.1, 0.0)
            elif is_ntk:
                factors = next((found for kind, found in NTK_FACTORS.items() if isinstance(module, kind)), (1.0, 1.0))
            groups.setdefault(factors, []).append(weights)
    return [{"params": found, "rate_factor": rate, "decay_factor": decay} for (rate, decay), found in groups.items()]
