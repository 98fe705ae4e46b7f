"""Small training problems with numbers and categories that predict the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn

from gpupipe.models.context import never_stop
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.settings import Mlp
from gpupipe.models.neural.shard_training import ShardedProblem, TrainingShard, train_shard
from gpupipe.models.neural.trainer import Progress, take_rows
from gpupipe.tensors.batch import TensorBatch

SETTINGS = Mlp(
    batch_size=32, epochs=3, learning_rate=1e-2, weight_decay=1e-2, warmup=0.1, patience=None, precision="float32"
)
SHAPES: dict[str, dict[str, Any]] = {
    "mlp": {"depth": 1, "width": 16},
    "realmlp": {
        "kind": "mlp", "depth": 1, "width": 16, "parametrization": "ntk", "number_encoding": "periodic",
        "activation": "mish",
    },
    "tabm": {"depth": 1, "width": 16, "members": 3},
    "ft_transformer": {"depth": 1, "hidden": 8, "heads": 2},
}  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A training in one shard, and how to change and to run it."""

    problem: ShardedProblem
    rows: TensorBatch[torch.Tensor]
    training: torch.Tensor
    validation: torch.Tensor

    def but(self, *, kind: str | None = None, dropout: float = 0.0, seed: int = 7, **settings: Any) -> Small:
        """Return it with another kind of network, dropout in it, another seed, or other settings of the training."""
        old = self.problem.architecture
        model = Mlp(**{**self.problem.model.model_dump(), **settings})
        problem = replace(self.problem, model=model, seed=seed)
        if kind is not None:
            rates: dict[str, Any] = {"dropout": dropout, "hidden_dropout": dropout, "attention_dropout": dropout}
            shape = {"kind": kind, **SHAPES[kind], **rates}
            made = Architecture(
                n_numbers=old.n_numbers,
                cardinalities=old.cardinalities,
                n_outputs=1,
                n_bins=4,
                embedding_size=4,
                **shape,
            )
            problem = replace(problem, architecture=made)
        return replace(self, problem=problem)

    def on(self, **fields: Any) -> Small:
        """Return it with other rows."""
        return replace(self, **fields)

    def run(
        self,
        processes: Communicator | None = None,
        checkpoint: Checkpoint | None = None,
        safe_point: Callable[[str], None] = never_stop,
    ) -> tuple[Network, Progress]:
        """Train, by itself where no others are given."""
        training, validation = (take_rows(self.rows, chosen) for chosen in (self.training, self.validation))
        problem = replace(self.problem, heights=(len(training),))
        shard = TrainingShard(training, validation, sample=training.features)
        group = processes or Communicator()
        trained = train_shard(problem, shard, 1, lambda device: nullcontext(group), checkpoint, safe_point)
        return trained.network, trained.progress


@pytest.fixture
def small() -> Small:
    """Return 230 rows to train on and 70 held out, of two numbers of five values each and two categories; an mlp."""
    draw = torch.Generator().manual_seed(3)
    numbers = torch.randint(-2, 3, (300, 2), generator=draw).float()
    ids = torch.randint(0, 4, (300, 2), generator=draw, dtype=torch.int32)
    noise = torch.randn(300, generator=draw)
    target = (numbers[:, 0] + (ids[:, 0] == 2) + noise > 0.3).long()
    problem = ShardedProblem(SETTINGS, Architecture("mlp", 2, (4, 4), 1, 4, 4, 1), "binary", 7, ())
    return Small(problem, TensorBatch(numbers, ids, target), torch.arange(230), torch.arange(230, 300)).but(kind="mlp")


@pytest.fixture
def curve() -> Callable[[Progress], list[float]]:
    """Return what lists the losses of a training: of the training and the held-out rows, epoch by epoch."""
    return lambda progress: [loss for epoch in progress.epochs for loss in (epoch.training, epoch.validation)]


@pytest.fixture
def short_of_memory() -> Callable[..., AbstractContextManager[None]]:
    """Return a function that makes every network raise PyTorch's out-of-memory error above a number of rows."""

    @contextmanager
    def short(n_rows: int, after: int = 0) -> Iterator[None]:
        calls = 0

        def look(module: nn.Module, given: tuple[Any, ...]) -> None:
            nonlocal calls
            if isinstance(module, Network) and module.training:
                calls += 1
                if len(given[0]) > n_rows and calls > after:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        hook = nn.modules.module.register_module_forward_pre_hook(look)
        try:
            yield
        finally:
            hook.remove()

    return short
