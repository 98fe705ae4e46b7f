"""Plug-ins that a configuration uses, for the manifest of the model and the keys of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpupipe.config.features import op_name
from gpupipe.entry_points import InstalledPlugin
from gpupipe.features import OPS
from gpupipe.io.file_formats import READERS, format_of
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS

if TYPE_CHECKING:
    from gpupipe.config import Config


def plugins_of(config: Config, models: Iterable[str] | None = None) -> list[dict[str, str]]:
    """Return kind, name and package of each plug-in that a validated configuration uses, as JSON values.

    `models` has the names of the models that count; default: all entries.
    """
    found = dict.fromkeys(filter(None, _used(config, models)))
    return [plugin.to_json() for plugin in found]


def _used(config: Config, models: Iterable[str] | None) -> Iterator[InstalledPlugin | None]:
    for source in (config.source, *config.tables.values()):
        formats = {source.format} if source.format != "auto" else set(map(format_of, source.paths))
        # The files of a folder are not listed again: a reader that this process has used may be theirs.
        names = READERS.names() if None in formats else [name for name in formats if name is not None]
        yield from map(READERS.plugin, names)
    for op in config.features:
        yield OPS.plugin(op_name(op))
    yield from map(MODELS.plugin, [entry.name for entry in config.models] if models is None else models)
    yield from map(METRICS.plugin, [*(config.evaluate.metrics or ()), config.evaluate.select_by or ""])
