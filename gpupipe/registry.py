"""Registry of named parts: feature ops, models, readers, metrics.

A part registers itself with a decorator, and its folder's ``__init__.py`` imports it; there is no discovery.

>>> shapes = Registry("shape")
>>> @shapes.register("circle")
... class Circle: ...
>>> shapes.get("circle").__name__
'Circle'
>>> shapes.names()
('circle',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from gpupipe.errors import ConfigError, did_you_mean

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Named parts of one kind, in registration order.

    Parameters
    ----------
    kind : str
        The kind as messages name it: ``"feature op"``, ``"model"``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, Part] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """Return a decorator that registers its target as `name`; a name can be registered once."""

        def decorate(part: Part) -> Part:
            if name in self._parts:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._parts[name] = part
            return part

        return decorate

    def get(self, name: str) -> Part:
        """Return the part registered as `name`.

        Raises
        ------
        ConfigError
            If there is none; the message suggests the closest name.
        """
        try:
            return self._parts[name]
        except KeyError:
            hint = did_you_mean(name, self._parts) or f"one of {', '.join(self._parts)}"
            raise ConfigError(f"unknown {self.kind} {name!r}", fix=hint) from None

    def names(self) -> tuple[str, ...]:
        """Return the names, in registration order."""
        return tuple(self._parts)

    def items(self) -> Iterator[tuple[str, Part]]:
        """Iterate over (name, part) pairs, in registration order."""
        return iter(self._parts.items())

    def __contains__(self, name: object) -> bool:
        return name in self._parts
