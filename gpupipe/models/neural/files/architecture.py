"""architecture.json: what a network is made of. It may come from anywhere, so every value is checked before its use."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import get_args

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.neural.architecture import Architecture, Kind
from gpupipe.tasks import SUPERVISED
from gpupipe.units import MIB

NAME = "architecture.json"
FORMAT = "gpupipe-network"
FORMAT_VERSION = 1
MAX_BYTES = 32 * MIB

# The largest of each that makes sense; products of them stay below 2⁶³, so that PyTorch can say their size at all.
LIMITS = {
    "n_numbers": (0, 1 << 20), "n_outputs": (1, 1 << 20), "n_bins": (0, 1 << 12), "embedding_size": (1, 1 << 14),
    "depth": (1, 256), "width": (0, 1 << 16), "hidden": (0, 1 << 16), "heads": (1, 1 << 10),
}  # fmt: skip
MAX_IDS = 1 << 24  # float32 holds every integer below it
MAX_COLUMNS = 1 << 20
RATES = ("dropout", "hidden_dropout", "attention_dropout")
NEEDED = {"mlp": ("width",), "resnet": ("width", "hidden"), "ft_transformer": ("hidden",)}  # not 0 there


def write_architecture(path: Path, architecture: Architecture, task: str) -> None:
    """Write the file."""
    values = {"format": FORMAT, "format_version": FORMAT_VERSION, "task": task, "network": asdict(architecture)}
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def read_architecture(data: bytes, where: str, said: Description) -> Architecture:
    """Return what the file says.

    Parameters
    ----------
    data : bytes
        The content of the file.
    where : str
        Its path, for messages.
    said : Description
        Of the model; the file must agree with it.

    Raises
    ------
    ArtifactError
        If the file is not such JSON, has a value that no network has, or is of another model.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES // MIB} MiB")
        values = parse_json(data)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError(f"it does not say that its format is {FORMAT!r}")
        if values.get("format_version") != FORMAT_VERSION:
            raise ValueError(f"its version is {values.get('format_version')!r}, and version {FORMAT_VERSION} is read")
        architecture = _checked(values.get("network"))
        if values.get("task") != said.task or said.task not in SUPERVISED:
            raise ValueError(f"its task is {values.get('task')!r}, that of the model {said.task!r}")
        said.check_columns(architecture.n_tokens)
        said.check_outputs(architecture.n_outputs)
    except ValueError as error:
        raise ArtifactError(
            f"{NAME} does not describe this network: {error}", where=where, fix="export the model again"
        ) from error
    return architecture


def _checked(values: object) -> Architecture:
    names = {field.name for field in fields(Architecture)}
    if not isinstance(values, dict) or set(values) != names:
        raise ValueError(f"a network has {', '.join(sorted(names))}")
    kind, cardinalities = values["kind"], values["cardinalities"]
    if kind not in get_args(Kind):
        raise ValueError(f"kind is {kind!r}")
    for name, (least, most) in LIMITS.items():
        _check_integer(name, values[name], 1 if name in NEEDED[kind] else least, most)
    if not isinstance(cardinalities, list) or len(cardinalities) > MAX_COLUMNS:
        raise ValueError("cardinalities is no list of a sane length")
    for n_ids in cardinalities:
        _check_integer("one of cardinalities", n_ids, 1, MAX_IDS)
    for name in RATES:
        if type(values[name]) not in (int, float) or not 0 <= values[name] < 1:
            raise ValueError(f"{name} is {values[name]!r}, no number from 0 up to 1")
    architecture = Architecture(**{**values, "cardinalities": tuple(cardinalities)})
    if not architecture.n_tokens or (architecture.n_numbers and not architecture.n_bins):
        raise ValueError("it has no columns, or numbers without bins")
    if kind == "ft_transformer" and architecture.embedding_size % architecture.heads:
        raise ValueError(f"embedding_size {architecture.embedding_size} is no multiple of heads {architecture.heads}")
    return architecture


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, no integer from {least} to {most}")
