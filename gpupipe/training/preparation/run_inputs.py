"""Files that a run reads, which its outputs must not overwrite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError
from gpupipe.io.origin_settings import database_name
from gpupipe.io.output_conflicts import ProtectedInput
from gpupipe.references import REFERENCE, split_reference

if TYPE_CHECKING:
    from gpupipe.config import Config


def run_inputs(config: Config) -> list[ProtectedInput]:
    """Return the tables of a configuration, its file, the files of its code, and its cache."""
    found = [ProtectedInput(path, "the input") for path in config.source.locations]
    for name, table in config.tables.items():
        found += [ProtectedInput(path, f"the table {name!r}") for path in table.locations]
    if config.origin.path is not None:
        found.append(ProtectedInput(os.fspath(config.origin.path), "the configuration"))
    for code in filter(REFERENCE.fullmatch, code_references(config).values()):
        found.append(ProtectedInput(os.fspath(split_reference(code)[0]), "code of the configuration"))
    if config.cluster.scheduler_file is not None:
        found.append(ProtectedInput(os.fspath(config.cluster.scheduler_file), "the file of the scheduler"))
    if isinstance(config.source.cache, str) and config.source.cache != "auto":
        found.append(ProtectedInput(config.source.cache, "the cache", folder="open"))
    elif folder := os.environ.get("GPUPIPE_CACHE"):
        found.append(ProtectedInput(folder, "the cache", folder="open"))
    return found


def code_references(config: Config) -> dict[str, str]:
    """Return the code of a configuration, by setting: ``file.py:function``, queries, and classes of Iceberg catalogs.

    A run executes this code. So do ``check`` and ``plan``, because columns depend on its results.
    """
    found: dict[str, Any] = {}
    for name, section in [("source", config.source), *((f"tables.{name}", it) for name, it in config.tables.items())]:
        found[f"{name}.prepare"] = section.prepare
        found[f"{name}.sql"] = section.sql and f"the query of {database_name(str(section.uri))}"
        catalog = section.catalog if isinstance(section.catalog, dict) else {}
        found |= {f"{name}.catalog.{key}": value for key, value in catalog.items() if "impl" in key.lower()}
    found |= {f"features[{i}].{op.title()}.use": getattr(op, "use", None) for i, op in enumerate(config.features)}
    uses = {f"models[{i}].{it.name}.use": getattr(it.params, "use", None) for i, it in enumerate(config.models)}
    found |= {setting: use for setting, use in uses.items() if isinstance(use, str) and REFERENCE.fullmatch(use)}
    return {setting: code for setting, code in found.items() if isinstance(code, str)}


def refuse_code(config: Config) -> None:
    """Raise ConfigError if the configuration names code, for ``--no-code``."""
    if code := code_references(config):
        where = "; ".join(f"{setting}: {reference}" for setting, reference in code.items())
        fix = "review the code and remove --no-code, or use `gpupipe check --no-data`, which runs no code and no query"
        raise ConfigError("the configuration names code, and --no-code is set", where=where, fix=fix)


def code_line(config: Config) -> str:
    """Return the line of ``check`` and ``plan`` about the code that they ran, or ``""``."""
    code = code_references(config)
    return f"ran code of the configuration: {', '.join(dict.fromkeys(code.values()))}" if code else ""
