"""Kinds of damaged models whose structure is edited: fields, lengths, types and references instead of bytes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.csv as pa_csv

from gpupipe.cli import main
from gpupipe.models.scikit_learn.skops_types import ALLOWED
from tools.fuzz.damage.models import OWN, vouched_for
from tools.fuzz.kinds import FuzzCommand, InputKind, SoundBase
from tools.fuzz.structure.entries import replace_entry
from tools.fuzz.structure.formats import FORMATS, Format, with_small_ids
from tools.fuzz.structure.model_roads import ROADS
from tools.fuzz.structure.onnx_wire import read_onnx, write_onnx
from tools.fuzz.structure.tree_edits import Parts, Slot, Special, edited, parts_of, slots
from tools.fuzz.structure.zoo import N_SCORED, Zoo

READ_OR_REFUSED = frozenset({0, 3, 5})
M_PERTURB = -6  # mallopt parameter: fill freed and new memory with a byte
FILLS = (0xA5, 0x3C)
ATTEMPTS = 4
OPERATOR = 4  # field of NodeProto in onnx.proto
SCORE = ("predict", "model", "t.parquet", "-o", "out.csv", "--force", "--quiet")
ESTIMATORS = {
    "ubj": "estimator.ubj",
    "skops": "estimator.skops",
    "npz": "estimator.npz",
    "txt": "estimator.txt",
    "safetensors": "estimator.safetensors",
    "onnx": "estimator.onnx",
}
LIBRARIES = {
    "txt": ("lightgbm",),
    "safetensors": ("torch", "safetensors"),
    "onnx": ("torch", "safetensors", "onnx", "onnxruntime"),
}
STRUCTURES = (*ESTIMATORS, "ensemble", "parts", "entries")
"""Names of the kinds: estimators by format, descriptions of several models, the other parts of a model, and each entry
of its JSON parts replaced by a value of another type."""


def has_libraries(name: str) -> bool:
    """Return whether the libraries that write estimators of a kind are installed."""
    return all(find_spec(library) is not None for library in LIBRARIES.get(name, ()))


def structure_kind(name: str, zoo: Zoo) -> InputKind:
    """Return a kind."""
    other = {"parts": _parts_kind, "ensemble": _ensemble_kind, "entries": _entries_kind}.get(name)
    return _estimator_kind(name, zoo) if other is None else other(zoo)


def _estimator_kind(name: str, zoo: Zoo) -> InputKind:
    onnx = name == "onnx"
    how = Format(read_onnx, write_onnx) if onnx else NETWORK if name == "safetensors" else FORMATS[name]
    command = FuzzCommand(SCORE, READ_OR_REFUSED, "out.csv", _check, prepare=_without_torch if onnx else _filled)
    bases = []
    trees = []
    scored = zoo.scored
    for label, files in zoo.estimators(name):
        damaged = f"model/{ESTIMATORS[name]}"
        if name == "skops":
            files[damaged] = with_small_ids(files[damaged])
        trees.append(how.decode(files[damaged]))
        bases.append(SoundBase(label, {**files, "t.parquet": scored}, damaged, (command,), vouched_for))
        if not onnx and (network := "model/architecture.json") in files:
            trees.append(how.decode(files[network]))
            bases.append(
                SoundBase(f"{label} {network}", {**files, "t.parquet": scored}, network, (command,), vouched_for)
            )
    special = _built_otherwise(trees) if name == "skops" else _other_operator() if onnx else None
    return InputKind(bases, StructureDamage(how, parts_of(trees), special))


def _ensemble_kind(zoo: Zoo) -> InputKind:
    """Return the kind of damaged descriptions of ensembles and models per target in the manifest."""
    command = FuzzCommand(SCORE, READ_OR_REFUSED, "out.csv", _check, prepare=_filled)
    bases = []
    trees = []
    scored = zoo.scored
    for label, files in zoo.ensembles():
        trees.append(json.loads(files[OWN])["estimator"])
        bases.append(SoundBase(label, {**files, "t.parquet": scored}, OWN, (command,), vouched_for))
    damage = StructureDamage(FORMATS["json"], parts_of(trees))

    def damaged(content: bytes, rng: Random) -> bytes:
        values = json.loads(content)
        changed = damage(json.dumps(values["estimator"]).encode(), rng)
        return json.dumps({**values, "estimator": json.loads(changed)}).encode()

    return InputKind(bases, damaged)


def _parts_kind(zoo: Zoo) -> InputKind:
    bases, trees = [], []
    score = FuzzCommand(SCORE, READ_OR_REFUSED, "out.csv", _check, share=3, prepare=_filled)
    verify = FuzzCommand(("verify", "model"), READ_OR_REFUSED, prepare=_filled)
    for label, files in zoo.runs():
        for part, content in files.items():
            if part.startswith("model/estimator"):
                continue
            trees.append(PARTS.decode(content))
            uses = (score, verify) if "model/parity.json" in files else (score,)
            bases.append(SoundBase(f"{label} {part}", {**files, "t.parquet": zoo.scored}, part, uses, vouched_for))
    return InputKind(bases, StructureDamage(PARTS, parts_of(trees)))


def _entries_kind(zoo: Zoo) -> InputKind:
    """Return the kind of models with replaced entries: runs, ensembles, and trees of LightGBM and CatBoost."""
    score = FuzzCommand(SCORE, READ_OR_REFUSED, "out.csv", _check, prepare=_filled)
    uses = (score, FuzzCommand((ROADS, "model", "t.parquet"), frozenset({0, 2, 3, 5}), prepare=_filled))
    trees = [name for name in ("txt", "npz") if has_libraries(name)]
    models = chain(zoo.runs(), zoo.ensembles(), *map(zoo.estimators, trees))
    bases = [
        SoundBase(f"{label} {part}", {**files, "t.parquet": zoo.scored}, part, uses, vouched_for)
        for label, files in models
        for part in files
        if part.endswith(".json")
    ]
    return InputKind(bases, replace_entry)


def _format_of(content: bytes) -> Format:
    return FORMATS["npz" if content.startswith(b"PK") else "json"]


def _written(tree: Any) -> bytes:
    """Return a part as npz if its members are arrays, else as JSON."""
    is_npz = isinstance(tree, dict) and any(name.endswith(".npy") for name in tree)
    return FORMATS["npz" if is_npz else "json"].encode(tree)


def _network_file(content: bytes) -> Format:
    return FORMATS["json" if content.startswith(b"{") else "safetensors"]


def _written_network(tree: Any) -> bytes:
    is_weights = isinstance(tree, dict) and {"longer", "header", "data"} <= set(tree)
    return FORMATS["safetensors" if is_weights else "json"].encode(tree)


NETWORK = Format(lambda content: _network_file(content).decode(content), _written_network)
PARTS = Format(lambda content: _format_of(content).decode(content), _written)


class StructureDamage:
    """A way to damage a file: decode it, edit it once, and encode it."""

    def __init__(self, how: Format, parts: Parts, special: Special | None = None) -> None:
        self.how = how
        self.parts = parts
        self.special = special

    def __call__(self, content: bytes, rng: Random) -> bytes:
        """Return the damaged file; unchanged if an earlier edit made it impossible to decode or encode."""
        for _ in range(ATTEMPTS):
            with suppress(Exception):  # any exception that NumPy, Arrow or zipfile raise for edited data
                made = self.how.encode(edited(self.how.decode(content), rng, self.parts, self.special))
                if made != content:
                    return made
        return content


def _built_otherwise(trees: Sequence[Any]) -> Special:
    """Return an edit of skops files: give a node another allowed class or another loader."""
    nodes = [slot.value for slot in slots(trees) if _is_node(slot.value)]
    used = {(node["__module__"], node["__class__"], node["__loader__"]) for node in nodes}
    allowed = {(*name.rpartition(".")[::2], loader) for name, loaders in ALLOWED.items() for loader in loaders}
    classes = sorted(used | allowed)

    def change(every: Sequence[Slot], rng: Random) -> bool:
        found = [slot.value for slot in every if _is_node(slot.value)]
        if found:
            names = dict(zip(("__module__", "__class__", "__loader__"), rng.choice(classes), strict=True))
            kept = rng.choice([(), ("__loader__",), ("__module__", "__class__")])
            rng.choice(found).update({key: value for key, value in names.items() if key not in kept})
        return bool(found)

    return change


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and {"__module__", "__class__", "__loader__"} <= set(value)


def _other_operator() -> Special:
    """Return an edit of ONNX files: give a node another standard operator."""
    import onnx

    names = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})

    def change(every: Sequence[Slot], rng: Random) -> bool:
        found = [
            slot.container
            for slot in every
            if slot.key == 2 and isinstance(slot.value, str) and slot.container[0] == OPERATOR and slot.value in names
        ]
        if found:
            rng.choice(found)[2] = rng.choice(names)
        return bool(found)

    return change


def _filled(fill: int = FILLS[0]) -> None:
    """Fill allocated and freed memory with a byte, so that reads of unwritten memory change the result."""
    ctypes.CDLL(None).mallopt(M_PERTURB, fill)


def _without_torch() -> None:
    """Make networks predict with ONNX Runtime."""
    from gpupipe.models.neural.files import load as loading

    _filled()
    vars(loading)["find_spec"] = lambda name: None if name == "torch" else find_spec(name)


def _check(folder: Path) -> str:
    """Return a problem of accepted predictions: a wrong number of rows, or a dependence on unwritten memory."""
    first = (folder / "out.csv").read_bytes()
    n_rows = pa_csv.read_csv(folder / "out.csv").num_rows
    if n_rows != N_SCORED:
        return f"expected {N_SCORED} predictions, found {n_rows}"
    _filled(FILLS[1])
    code = main([*SCORE[:-3], "again.csv", "--quiet"])
    _filled(FILLS[0])
    if code != 0:
        return f"exit code {code} on the second call"
    again = folder / "again.csv"
    same = again.read_bytes() == first
    again.unlink()
    return "" if same else "different predictions on the second call"
