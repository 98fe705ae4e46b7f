"""Checkpoint keys: hashes of the code, versions, input files, settings and rows that a stage depends on.

Keys exclude what cannot change a result: the number of threads, limits, names, and the location of the run directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.features.ops.kernel import Kernel
from gpupipe.files.libraries import libraries
from gpupipe.io.cache import cache_key
from gpupipe.io.input_files import InputFiles
from gpupipe.model_parts.goal import Goal, Truth
from gpupipe.references import split_reference
from gpupipe.table.blocks import EncodedTable
from gpupipe.training.preparation.plugins import plugins_of
from gpupipe.typing import Array
from gpupipe_kernels.code_cache import SOURCES as KERNELS

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

OURS = Path(__file__).parents[2]
NO_RESULT = ("bench", "cli", "doctor", "metrics", "report", "starter")  # packages that no checkpoint depends on
# Sections that cannot change the table, and sections with their own part of a key.
WITHOUT = {
    "name", "seed", "device", "fallback", "gpu", "cluster", "source", "tables", "split", "features", "models",
    "evaluate", "limits", "monitor", "report", "track", "output", "output_mode",
}  # fmt: skip


@dataclass(frozen=True)
class CheckpointKey:
    """The key of a stage's checkpoint.

    `stage` is the name of the stage, such as "fold 2 of 5: train xgboost"; `parts` has the hash of each dependency, by
    name.
    """

    stage: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Hash of all parts, 32 hexadecimal digits. Excludes the stage name: stages with equal parts share a result."""
        return digest(dict(self.parts))

    def of(self, stage: str, **parts: str) -> CheckpointKey:
        """Return the key of a stage with the dependencies of this one and further `parts`."""
        return CheckpointKey(stage, {**self.parts, **{name.replace("_", " "): value for name, value in parts.items()}})

    def changed(self, parts: Mapping[str, str]) -> list[str]:
        """Return the names of the parts that differ from `parts`."""
        return [name for name, value in self.parts.items() if parts.get(name) != value]


def inputs_key(config: Config, backend: Backend, files: InputFiles) -> CheckpointKey:
    """Return the key of a run's input, computed from the listing of its files before any is read."""
    return CheckpointKey().of(
        "read",
        the_input=cache_key(files.all, config.source, config.tables),
        the_settings=digest(config.model_dump(mode="json", exclude=WITHOUT)),
        the_code=code_digest(),
        the_library_versions=digest([libraries(), plugins_of(config)]),
        the_device=backend.name,
    )


def table_key(
    key: CheckpointKey, table: EncodedTable, truth: Truth | None, goal: Goal, workers: Workers | None
) -> CheckpointKey:
    """Return the key of a table after reading: its schema, target with weights, and partitions on workers."""
    columns = [[column.to_json(), column.levels] for column in table.schema]
    cut = [] if workers is None else [workers.n_workers, table.bounds]
    target = [asdict(goal), *([] if truth is None else [_sum(truth.y), _sum(truth.weights)])]
    return key.of("read", the_table=digest([columns, table.n_rows, cut]), the_target=digest(target))


def features_digest(config: Config) -> str:
    """Return the hash of the ``features:`` section, including the files of custom kernels."""
    ops = [[type(op).__name__, op.model_dump(mode="json", by_alias=True)] for op in config.features]
    files = [split_reference(op.use)[0] for op in config.features if isinstance(op, Kernel) and isinstance(op.use, str)]
    return digest([ops, [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]])


def rows_digest(mask: Array) -> str:
    """Return the hash of a row mask (bool, shape (n_rows,))."""
    return hashlib.sha256(np.packbits(mask).tobytes() + len(mask).to_bytes(8, "little")).hexdigest()


def digest(value: Any) -> str:
    """Return the hash of JSON values, 32 hexadecimal digits; other values are hashed as text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


@cache
def code_digest() -> str:
    """Return the hash of the source files that checkpoints depend on. Takes a few milliseconds."""
    found = hashlib.sha256()
    for folder in (OURS, KERNELS):
        for path in sorted(folder.rglob("*.py")):
            source = path.relative_to(folder.parent)
            if source.parts[1] not in NO_RESULT:
                found.update(f"{source}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _sum(values: Array | None) -> str:
    return "" if values is None else hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
