"""Reader and writer of architecture.json; the file is untrusted, so every value is checked before use."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.neural.architecture import Activation, Architecture, Kind, NumberEncoding, Parametrization
from gpupipe.tasks import SUPERVISED
from gpupipe.units import MIB

NAME = "architecture.json"
FORMAT = "gpupipe-network"
FORMAT_VERSION = 2  # 1: without the entries of `LATER`, whose defaults are its networks
MAX_BYTES = 32 * MIB

# Largest sensible values; their products stay below 2⁶³, so that PyTorch can compute tensor sizes.
RATES = ("dropout", "hidden_dropout", "attention_dropout")
MAX_IDS = 1 << 24  # float32 represents every integer below it exactly
LIMITS = {
    "n_numbers": (0, 1 << 20), "n_outputs": (1, 1 << 20), "n_bins": (0, 1 << 12), "embedding_size": (1, 1 << 14),
    "depth": (1, 256), "width": (0, 1 << 16), "hidden": (0, 1 << 16), "heads": (1, 1 << 10),
}  # fmt: skip
NETWORK: dict[Any, Any] = {name: range(least, most + 1) for name, (least, most) in LIMITS.items()}
NETWORK |= {"kind": {*get_args(Kind)}, "cardinalities": [range(1, MAX_IDS + 1)], **dict.fromkeys(RATES, float)}
LATER = {"number_encoding": NumberEncoding, "activation": Activation, "parametrization": Parametrization}
NETWORK |= {f"{name}?": {*get_args(values)} for name, values in LATER.items()} | {"members?": range(1, 1025)}
SHAPE = {"format": {FORMAT}, "format_version": range(1, FORMAT_VERSION + 1), "task": str, "network": NETWORK}
MAX_COLUMNS = 1 << 20
NEEDED = {
    "mlp": ("width",),
    "tabm": ("width",),
    "resnet": ("width", "hidden"),
    "ft_transformer": ("hidden",),
}  # must not be 0


def write_architecture(path: Path, architecture: Architecture, task: str) -> None:
    """Write architecture.json."""
    values = {"format": FORMAT, "format_version": FORMAT_VERSION, "task": task, "network": asdict(architecture)}
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def read_architecture(data: bytes, where: str, expected: Description) -> Architecture:
    """Return the architecture in the content of a file.

    Raise ArtifactError if the file is malformed, has a value out of range, or belongs to another model.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES // MIB} MiB")
        values = parse_json(data)
        check_shape(values, SHAPE)
        architecture = _checked(values["network"])
        if values["task"] != expected.task or expected.task not in {*SUPERVISED, "multioutput"}:
            raise ValueError(f"expected the task {expected.task!r}; got {values['task']!r:.40}")
        expected.check_columns(architecture.n_tokens)
        expected.check_outputs(architecture.n_outputs)
    except ValueError as error:
        raise ArtifactError(
            f"{NAME} does not match the model: {error}", where=where, fix="export the model again"
        ) from error
    return architecture


def _checked(values: dict[str, Any]) -> Architecture:
    kind, cardinalities = values["kind"], values["cardinalities"]
    if absent := [name for name in NEEDED[kind] if not values[name]]:
        raise ValueError(f"network.{absent[0]}: expected a positive integer; found 0")
    if len(cardinalities) > MAX_COLUMNS:
        raise ValueError(f"expected at most {MAX_COLUMNS:,} cardinalities; found {len(cardinalities):,}")
    for name in RATES:
        if not 0 <= values[name] < 1:
            raise ValueError(f"expected {name} in [0, 1); got {values[name]!r}")
    architecture = Architecture(**{**values, "cardinalities": tuple(cardinalities)})
    if not architecture.n_tokens or (architecture.n_numbers and not architecture.n_bins):
        raise ValueError("it has no columns, or numeric columns without bins")
    if kind == "ft_transformer" and architecture.embedding_size % architecture.heads:
        raise ValueError(
            f"embedding_size {architecture.embedding_size} is not a multiple of heads {architecture.heads}"
        )
    return architecture
