"""Everything on the disk that a run reads: what its outputs must leave alone."""

from __future__ import annotations

import os
from pathlib import Path

from gpupipe.config import Config
from gpupipe.pipeline.model_folder import MANIFEST
from gpupipe.readers.output_conflicts import ProtectedInput

RUN_DIRECTORY = ("config.yaml", "metrics.json")


def run_inputs(config: Config) -> list[ProtectedInput]:
    """Return the tables of a configuration, its own file, those of its code, and its cache."""
    found = [ProtectedInput(path, "the input") for path in config.source.paths]
    for name, table in config.tables.items():
        found += [ProtectedInput(path, f"the table {name!r}") for path in table.paths]
    if config.origin.path is not None:
        found.append(ProtectedInput(os.fspath(config.origin.path), "the configuration"))
    hooks = [section.prepare for section in (config.source, *config.tables.values())]
    uses = [getattr(op, "use", None) for op in config.features]
    uses += [getattr(entry.params, "use", None) for entry in config.models]
    for code in (*hooks, *uses):
        if isinstance(code, str):
            found.append(ProtectedInput(code.rpartition(":")[0], "code of the configuration"))
    if config.cluster.scheduler_file is not None:
        found.append(ProtectedInput(os.fspath(config.cluster.scheduler_file), "the file of the scheduler"))
    if isinstance(config.source.cache, str) and config.source.cache != "auto":
        found.append(ProtectedInput(config.source.cache, "the cache", folder="open"))
    elif folder := os.environ.get("GPUPIPE_CACHE"):
        found.append(ProtectedInput(folder, "the cache", folder="open"))
    return found


def model_inputs(model: str | os.PathLike[str]) -> list[ProtectedInput]:
    """Return the directory of a model, and the run directory that it is in."""
    path = Path(model)
    is_model = (path / MANIFEST).is_file()
    found = [path] if is_model or (path / "model" / MANIFEST).is_file() else []  # loading explains what is no model
    run = path.resolve().parent
    if is_model and all((run / name).is_file() for name in RUN_DIRECTORY):
        found.append(run)
    return [ProtectedInput(os.fspath(folder), "the model", folder="closed") for folder in found]
