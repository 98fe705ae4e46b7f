"""State of each installed plug-in, for `gpupipe doctor`: it can be loaded, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from gpupipe.entry_points import METRICS as METRIC_GROUP
from gpupipe.entry_points import MODELS as MODEL_GROUP
from gpupipe.entry_points import OPS as OP_GROUP
from gpupipe.entry_points import READERS as READER_GROUP
from gpupipe.entry_points import InstalledPlugin, installed_plugins
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.io.file_formats import FORMATS, READERS, RESERVED
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS
from gpupipe.registry import Registry

REGISTRIES: Mapping[str, Registry[Any]] = {
    OP_GROUP: OPS,
    MODEL_GROUP: MODELS,
    READER_GROUP: READERS,
    METRIC_GROUP: METRICS,
}


def plugin_states() -> list[dict[str, str]]:
    """Load every installed plug-in; return the level, text and fix of a finding for each."""
    states: list[dict[str, str]] = []
    for group, registry in REGISTRIES.items():
        plugins = chain.from_iterable(installed_plugins(group).values())
        states += [_state(registry, plugin) for plugin in plugins]
    return states


def _state(registry: Registry[Any], plugin: InstalledPlugin) -> dict[str, str]:
    is_taken = plugin.name in {*FORMATS, *RESERVED} if registry is READERS else plugin.name in registry.builtin_names()
    if is_taken:
        return {
            "level": "warning",
            "found": f"{plugin.title}; it is not used: gpupipe has a {registry.kind} of that name",
            "fix": f"ask its author to rename it, or remove it: pip uninstall {plugin.distribution}",
        }
    try:
        registry.get(plugin.name)
    except ConfigError as error:
        return {"level": "error", "found": error.what, "fix": error.fix}
    return {"level": "ok", "found": f"{plugin.title}; can be used", "fix": ""}
