"""Reader and writer of estimator.safetensors: the weights of a network, checked against its architecture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file

from gpupipe.errors import ArtifactError
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.modules import Network
from gpupipe.tasks import TargetSpec, Task

NAME = "estimator.safetensors"


def write_weights(served: Served, path: Path) -> None:
    """Write the weights and buffers of a network that is on the CPU."""
    save_file({name: value.contiguous() for name, value in served.state_dict().items()}, path)


def read_weights(
    data: bytes, where: str, architecture: Architecture, task: Task, targets: tuple[TargetSpec, ...] = ()
) -> Served:
    """Return the network in the content of a file, on the CPU and in evaluation mode.

    safetensors rejects a header that declares more bytes than the file has. Names, shapes and dtypes are compared with
    the architecture before a network of that size is allocated. Raise ArtifactError if the file is malformed, has other
    tensors than the network, or values that are not finite.
    """
    with torch.device("meta"):  # shapes without memory
        wanted = _empty(architecture, task, targets).state_dict()
    try:
        found = load(data)
        _check_tensors(found, wanted)
    except (ValueError, SafetensorError) as error:
        raise ArtifactError(
            f"{NAME} does not match the network: {error}", where=where, fix="export the model again"
        ) from error
    with torch.random.fork_rng(devices=[]):  # keep the global generators unchanged by the initialization
        served = _empty(architecture, task, targets)
    served.load_state_dict(found)
    return served.eval()


def _empty(architecture: Architecture, task: Task, targets: tuple[TargetSpec, ...]) -> Served:
    if not targets:
        return Served(Network(architecture), task)
    each = np.zeros(architecture.n_outputs)
    return Served(Network(architecture), task, each, each, targets)


def _check_tensors(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    if odd := sorted(set(found) ^ set(wanted)):
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] in wanted else 'unknown'}")
    for name, value in wanted.items():
        tensor = found[name]
        if tensor.shape != value.shape or tensor.dtype != value.dtype:
            raise ValueError(
                f"{name}: expected {value.dtype} of shape {tuple(value.shape)}; got {tensor.dtype} of shape "
                f"{tuple(tensor.shape)}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} has values that are not finite")
