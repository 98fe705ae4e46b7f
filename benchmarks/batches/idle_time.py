"""Share of its time that a GPU spends between training steps, idle or preparing the next batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any

import torch

Pair = tuple[Any, Any]

WIDTH = 512
STEPS = 200
WARM_UP = 10


def share_between_steps(loader: Iterable[Pair], n_columns: int) -> float:
    """Return the share of the device's time from the end of a step to the start of the next.

    A step is the forward pass, backward pass and update of a perceptron with two hidden layers of width `WIDTH`. CUDA
    events mark its start and end; the gather of a batch on the device falls between steps.
    """
    step = _step(n_columns)
    marks = []
    for X, y in islice(loader, WARM_UP + STEPS):
        start, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
        start.record()
        step(X, y)
        end.record()
        marks.append((start, end))
    torch.cuda.synchronize()
    marks = marks[WARM_UP:]
    between = sum(before.elapsed_time(after) for (_, before), (after, _) in pairwise(marks))
    return float(between / marks[0][0].elapsed_time(marks[-1][1]))


def _step(n_columns: int) -> Any:
    layers = [torch.nn.Linear(n_columns, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 2)).cuda()
    optimizer, loss = torch.optim.AdamW(model.parameters()), torch.nn.CrossEntropyLoss()

    def step(X: Any, y: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(model(X), y).backward()
        optimizer.step()

    return step
