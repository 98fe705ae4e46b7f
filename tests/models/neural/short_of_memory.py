"""Train twice: without a limit, and in an address space too small for a batch; print the batch size and last loss.

It runs in a separate process, since the limit applies to the whole process.
"""

from __future__ import annotations

import resource
from pathlib import Path

import torch

from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.settings import Mlp
from gpupipe.models.neural.shard_training import ShardedProblem, TrainingShard, train_rank
from gpupipe.models.neural.trainer import take_rows
from gpupipe.tensors.batch import TensorBatch

N_ROWS, ROOM = 1150, 150 << 20


def train() -> None:
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randn(N_ROWS, 40, generator=draw)
    rows = TensorBatch(numbers, None, (numbers[:, 0] > 0).long())
    shape = Architecture("ft_transformer", 40, (), 1, 8, 16, 2, hidden=256, heads=4)
    model = Mlp(
        batch_size=1024, epochs=1, weight_decay=0.0, schedule="constant", warmup=0.0, patience=None, gradient_clip=None
    )
    shard = TrainingShard(take_rows(rows, slice(1024)), take_rows(rows, slice(1024, N_ROWS)), numbers[:1024])
    progress = train_rank(ShardedProblem(model, shape, "binary", 0, (1024,)), shard, Communicator()).progress
    print(progress.micro_batch, progress.epochs[-1].validation)


torch.set_num_threads(1)
train()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
train()
