"""estimator.safetensors: the weights of a network, read into exactly the shapes that its architecture has."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gpupipe.errors import ArtifactError
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.served import Served
from gpupipe.models.task import Task

DTYPES = {"F32": torch.float32, "F64": torch.float64}


def write_weights(served: Served, path: Path) -> None:
    """Write weights and buffers of a network on the CPU."""
    save_file({name: value.contiguous() for name, value in served.state_dict().items()}, path)


def read_weights(path: Path, architecture: Architecture, task: Task) -> Served:
    """Return the network of a file, on the CPU and ready to predict.

    Names, shapes and types in the file's header are compared with those of the architecture before anything of their
    size is allocated.

    Raises
    ------
    ArtifactError
        If the file is no safetensors, has other tensors than the network, or values that are not finite.
    """
    with torch.device("meta"):  # shapes without memory
        wanted = _empty(architecture, task).state_dict()
    try:
        with safe_open(path, framework="pt") as file:
            _check_header(file, wanted)
            found = {name: file.get_tensor(name) for name in wanted}
        for name, value in found.items():
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"{name} has values that are not finite")
    except (OSError, ValueError, SafetensorError) as error:
        raise ArtifactError(
            f"{path.name} does not hold this network: {error}", where=str(path), fix="export the model again"
        ) from error
    with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and nobody's generator moves for that
        served = _empty(architecture, task)
    served.load_state_dict(found)
    return served.eval()


def _empty(architecture: Architecture, task: Task) -> Served:
    return Served(Network(architecture), task)


def _check_header(file: safe_open, wanted: dict[str, torch.Tensor]) -> None:
    names = set(file.keys())
    if odd := sorted(names ^ set(wanted)):
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] in wanted else 'not of it'}")
    for name, value in wanted.items():
        header = file.get_slice(name)
        shape, dtype = tuple(header.get_shape()), header.get_dtype()
        if shape != tuple(value.shape) or DTYPES.get(dtype) != value.dtype:
            raise ValueError(f"{name} is {dtype} of shape {shape}; the network has {value.dtype}, {tuple(value.shape)}")
