"""Files of a model and the libraries that read them, as a model card lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.units import format_size

CONTENTS = {
    "features.json": "the features and the columns that they are computed from",
    "learned.json": "what the feature ops have learned",
    "levels.json": "levels of the categorical columns",
    "manifest.json": "the description of the model, versions, and the SHA-256 of the files",
    "parity.json": "tolerance and outcome of the parity check",
    "parity.npz": "recorded features and predictions",
    "parity_rows.json": "recorded rows",
    "program.npz": "the compiled features",
    "schema.json": "the input columns",
    "drift.json": "columns and levels of the reference that `gpupipe drift` compares with",
    "drift.npz": "bins and counts of that reference",
    "held_out.npz": "outputs and targets of held-out rows, for `gpupipe evaluate`",
    "lineage.json": "the generations that the model was updated from",
    "training.json": "the settings of the training, for `gpupipe update`",
    "training_summary.json": "nulls and ranges of the training rows",
    "derivation.json": "history features",
    "derivation_arrays.npz": "what features of texts have learned",
    "derivation_levels.json": "levels of the columns of history features",
}
# Libraries that compute a stored estimator, each with the prefixes of its distributions; the others need NumPy only.
NEEDED = {
    "xgboost": ("xgboost",),
    "scikit-learn": ("scikit-learn",),
    "torch": ("torch",),
    "onnxruntime": ("onnxruntime",),
}


def file_table(facts: CardFacts, most: int) -> str:
    """Return the table of the files of the model."""
    files = list(facts.manifest["files"].items())[:most]
    rows = [[f"`{name}`", _content(name), format_size(entry["bytes"])] for name, entry in files]
    return table(["file", "content", "size"], rows, n_left=2)


def _content(name: str) -> str:
    if name.startswith("kernel_"):
        return "a custom kernel"
    return CONTENTS.get(name) or ("the estimator" if name.startswith("estimator.") else "a part of the estimator")


def libraries(facts: CardFacts) -> list[str]:
    """Return the libraries and plug-ins that the estimator needs, with their versions."""
    manifest = facts.manifest
    used = set(_found("library", manifest["estimator"]))
    prefixes = list(chain.from_iterable(found for library, found in NEEDED.items() if library in used))
    versions = [
        f"{name} {version}"
        for name, version in manifest["libraries"].items()
        if any(name == prefix or name.startswith(f"{prefix}-") for prefix in prefixes)
    ]
    packages = {(each["distribution"], each["version"]) for each in _found("plugin", manifest["estimator"])}
    return versions + [f"{name} {version}, a plug-in" for name, version in sorted(packages)]


def _found(key: str, description: Any) -> Iterator[Any]:
    """Yield the entry `key`, such as the library, of an estimator and of those that it consists of."""
    if isinstance(description, Mapping):
        if key in description:
            yield description[key]
        for value in description.values():
            yield from _found(key, value)
    elif isinstance(description, list):
        for value in description:
            yield from _found(key, value)
