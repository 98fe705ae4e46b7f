"""Checkpoint keys: hashes of the code, versions, input files, settings and rows that a stage depends on.

Not in a key is what must not change a result: the number of threads, limits, names, where the run directory is.
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
from gpupipe.io.cache import cache_key
from gpupipe.io.source_reader import input_files
from gpupipe.pipeline.libraries import libraries
from gpupipe.pipeline.target import Goal
from gpupipe.references import split_reference
from gpupipe.table.blocks import EncodedTable
from gpupipe.typing import Array
from gpupipe_kernels.code_cache import SOURCES as KERNELS

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

# The packages that make a stage. All others but those that make no result count as the code of reading.
SOURCES = {"features": ("features",), "training": ("models", "tensors")}
OURS = Path(__file__).parents[2]
NO_RESULT = ("bench", "cli", "doctor", "metrics", "report", "starter")
# Sections that change nothing, and those that have a part of their own.
WITHOUT = {
    "name", "seed", "device", "fallback", "gpu", "cluster", "source", "tables", "split", "features", "models",
    "evaluate", "limits", "report", "output",
}  # fmt: skip


@dataclass(frozen=True)
class CheckpointKey:
    """The key of a stage's checkpoint.

    Attributes
    ----------
    stage : str
        Its name, such as "fold 2 of 5: train xgboost".
    parts : mapping of str to str
        What it depends on, in words, each with a hash.
    """

    stage: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """32 hexadecimal digits of all parts. The stage is not among them: equal stages have one result."""
        return digest(dict(self.parts))

    def of(self, stage: str, **parts: str) -> CheckpointKey:
        """Return the key of a stage that depends on all that this one does, and on more."""
        return CheckpointKey(stage, {**self.parts, **{name.replace("_", " "): value for name, value in parts.items()}})

    def changed(self, parts: Mapping[str, str]) -> list[str]:
        """Return the names of the parts that differ from others."""
        return [name for name, value in self.parts.items() if parts.get(name) != value]


def inputs_key(config: Config, backend: Backend) -> CheckpointKey:
    """Return the key of a run's input, to be asked for before anything is read.

    Raises
    ------
    DataError, ConfigError
        If a file is absent.
    """
    files = [file for section in (config.source, *config.tables.values()) for file in input_files(section)]
    return CheckpointKey().of(
        "read",
        the_input=cache_key(files, config.source, config.tables),
        the_settings=digest(config.model_dump(mode="json", exclude=WITHOUT)),
        the_code_of_reading=code_of("reading"),
        the_library_versions=digest(libraries()),
        the_device=backend.name,
    )


def table_key(
    key: CheckpointKey, table: EncodedTable, y: Array | None, goal: Goal, workers: Workers | None
) -> CheckpointKey:
    """Return the key of a table that was read: what is to be learned of it, and how it is cut for workers."""
    columns = [[column.to_json(), column.levels] for column in table.schema]
    cut = [] if workers is None else [workers.n_workers, table.bounds]
    return key.of("read", the_table=digest([columns, table.n_rows, cut]), the_target=digest([asdict(goal), _sum(y)]))


def features_digest(config: Config) -> str:
    """Return the hash of the ``features:`` section, the files of users' kernels included."""
    ops = [[type(op).__name__, op.model_dump(mode="json", by_alias=True)] for op in config.features]
    files = [split_reference(op.use)[0] for op in config.features if isinstance(op, Kernel) and _is_file(op)]
    return digest([ops, [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]])


def rows_digest(mask: Array) -> str:
    """Return the hash of a choice of rows; bool, shape (n_rows,)."""
    return hashlib.sha256(np.packbits(mask).tobytes() + len(mask).to_bytes(8, "little")).hexdigest()


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits of JSON values; others count as their text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


@cache
def code_of(stage: str) -> str:
    """Return the hash of the sources that make a stage: of features, the kernels too. It takes some milliseconds."""
    found = hashlib.sha256()
    for folder in (OURS, KERNELS):
        for path in sorted(folder.rglob("*.py")):
            if _stage_of(path.relative_to(folder.parent)) == stage:
                found.update(f"{path.relative_to(folder.parent)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _stage_of(source: Path) -> str:
    """Return the stage that a source file belongs to, given as ``package/part/file.py``."""
    package, part = source.parts[:2]
    if package == KERNELS.name:
        return "features"
    made = next((stage for stage, parts in SOURCES.items() if part in parts), "reading")
    return "" if part in NO_RESULT else made


def _sum(values: Array | None) -> str:
    return "" if values is None else hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _is_file(op: Kernel) -> bool:
    return isinstance(op.use, str)
