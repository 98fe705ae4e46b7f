"""Registry of named parts: feature ops, models, readers, metrics.

A part of gpupipe registers itself with a decorator, and the registry names the modules that do so. Names that it does
not have are looked up among the plug-ins of installed packages: see `gpupipe.entry_points`.

>>> shapes = Registry("shape")
>>> @shapes.register("circle")
... class Circle: ...
>>> shapes.get("circle").__name__
'Circle'
>>> shapes.names()
('circle',)
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from threading import RLock
from typing import Generic, TypeVar

from gpupipe.entry_points import InstalledPlugin, choose_plugin, installed_plugins
from gpupipe.errors import ConfigError, did_you_mean

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Named parts of one kind, in the order of `modules`, then in registration order.

    - `kind`: the kind as messages name it: ``"feature op"``, ``"model"``
    - `modules`: modules that register parts. They are imported by the first look-up: a process that predicts with a
      finished model needs none of them.
    - `group`: group of the entry points of plug-ins; empty if there are none of this kind
    - `adapt`: the function that returns the part for a plug-in and its object, as ``"module:function"``; imported with
      the first plug-in. It raises TypeError with what was expected, as a noun.
    """

    def __init__(self, kind: str, modules: Sequence[str] = (), group: str = "", adapt: str = "") -> None:
        self.kind = kind
        self._group, self._adapt = group, adapt
        self._parts: dict[str, Part] = {}
        self._plugins: dict[str, InstalledPlugin] = {}
        self._modules = tuple(modules)
        self._is_complete = not modules
        self._lock = RLock()

    def register(self, name: str) -> Callable[[Part], Part]:
        """Return a decorator that registers its target as `name`; a name can be registered once."""

        def decorate(part: Part) -> Part:
            if name in self._parts:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._parts[name] = part
            return part

        return decorate

    def get(self, name: str) -> Part:
        """Return the part registered as `name`, or the plug-in of that name.

        Raises
        ------
        ConfigError
            If there is none; the message suggests the closest name. Also if a plug-in cannot be loaded.
        """
        parts = self._complete()
        if name not in parts and (plugin := choose_plugin(self._group, name)) is not None:
            self._load(plugin)
        try:
            return parts[name]
        except KeyError:
            known = self.known_names()
            hint = did_you_mean(name, known) or f"one of {', '.join(known)}"
            raise ConfigError(f"unknown {self.kind} {name!r}", fix=hint) from None

    def names(self) -> tuple[str, ...]:
        """Return the names in order: those of gpupipe, then those of plug-ins that were used in this process."""
        return tuple(self._complete())

    def builtin_names(self) -> tuple[str, ...]:
        """Return the names of gpupipe, without plug-ins."""
        return tuple(name for name in self._complete() if name not in self._plugins)

    def known_names(self) -> tuple[str, ...]:
        """Return the names of gpupipe and those of all installed plug-ins."""
        return tuple(dict.fromkeys([*self._complete(), *installed_plugins(self._group)]))

    def items(self) -> Iterator[tuple[str, Part]]:
        """Iterate over (name, part) pairs, in the order of `names`."""
        return iter(tuple(self._complete().items()))

    def name_of(self, part: Part) -> str:
        """Return the name of a registered part, or of a plug-in that was imported from its package directly.

        Raise ConfigError if it is neither.
        """
        for name, other in self.items():
            if other is part:
                return name
        own = getattr(part, "__name__", "")
        for name, plugins in installed_plugins(self._group).items():
            if plugins[0].entry_point.value.rpartition(":")[2] == own and self.get(name) is part:
                return name
        raise ConfigError(
            f"{own} is not a registered {self.kind}",
            fix=f"declare an entry point of the group {self._group} in its package, and install the package",
        )

    def plugin(self, name: str) -> InstalledPlugin | None:
        """Return the plug-in that `get` has loaded as `name`; None for a part of gpupipe."""
        return self._plugins.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._complete() or (isinstance(name, str) and name in installed_plugins(self._group))

    def _load(self, plugin: InstalledPlugin) -> None:
        if not plugin.name.isidentifier():
            raise plugin.error("has an invalid name: expected letters, digits and _")
        found = plugin.load()
        module, _, function = self._adapt.partition(":")
        try:
            part: Part = getattr(import_module(module), function)(plugin, found)
        except TypeError as error:
            raise plugin.error(f"has the wrong type: expected {error}; found {reprlib.repr(found)}") from None
        with self._lock:
            self._parts.setdefault(plugin.name, part)
            self._plugins.setdefault(plugin.name, plugin)

    def _complete(self) -> dict[str, Part]:
        """Return the parts, after importing the modules that register them."""
        if not self._is_complete:
            with self._lock:
                for module in self._modules:
                    import_module(module)
                # Modules may have been imported by others, in another order.
                place = {module: i for i, module in enumerate(self._modules)}
                ordered = sorted(self._parts.items(), key=lambda item: place.get(item[1].__module__, len(place)))
                self._parts, self._is_complete = dict(ordered), True
        return self._parts
