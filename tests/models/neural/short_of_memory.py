"""Trains twice: freely, and in an address space that has not room for a batch; prints rows at once and the last loss.

A process of its own: the limit holds for all of it.
"""

from __future__ import annotations

import resource
from pathlib import Path

import torch

from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.broadcast_training import BroadcastJob, broadcast_and_train
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.training_spec import TrainingSpec
from gpupipe.tensors.batch import TensorBatch

N_ROWS, ROOM = 1150, 150 << 20


def train() -> None:
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randn(N_ROWS, 40, generator=draw)
    rows = TensorBatch(numbers, None, (numbers[:, 0] > 0).long())
    shape = Architecture("ft_transformer", 40, (), 1, 8, 16, 2, hidden=256, heads=4)
    spec = TrainingSpec("binary", 0, 1024, 1, 1e-3, 0.0, "constant", 0.0, None, None, "float32", False)
    job = BroadcastJob(shape, spec, rows, torch.arange(1024), torch.arange(1024, N_ROWS))
    _, progress = broadcast_and_train(job, Communicator(), None)
    print(progress.micro_batch, progress.epochs[-1].validation)


torch.set_num_threads(1)
train()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
train()
