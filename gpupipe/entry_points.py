"""Plug-ins: objects of installed packages, found by their entry points.

The metadata of all installed packages is searched once per process and group, on the first name that gpupipe itself
does not have (10 ms for 250 packages). A plug-in is imported when its name is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from traceback import TracebackException
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPS = "gpupipe.ops"
MODELS = "gpupipe.models"
READERS = "gpupipe.readers"
METRICS = "gpupipe.metrics"
KINDS: Mapping[str, str] = {OPS: "feature op", MODELS: "model", READERS: "reader", METRICS: "metric"}
"""Kind of plug-in by entry point group."""

_refusal = ""  # the reason why this process may not load plug-ins


@dataclass(frozen=True)
class InstalledPlugin:
    """A plug-in of an installed package."""

    # group, name: group and name of the entry point.
    group: str
    name: str
    # distribution, version: the package, as pip names it.
    distribution: str
    version: str
    entry_point: EntryPoint = field(compare=False, repr=False)

    @property
    def origin(self) -> str:
        """The package and its version: ``gpupipe-geo 1.2``."""
        return f"{self.distribution} {self.version}"

    @property
    def title(self) -> str:
        """The plug-in, for messages: ``feature op 'grid' of gpupipe-geo 1.2``."""
        return f"{KINDS[self.group]} {self.name!r} of {self.origin}"

    def load(self) -> Any:
        """Import the plug-in and return its object; what its import prints goes to stderr.

        Raise ConfigError if the import fails, or this process may not load plug-ins.
        """
        if _refusal:
            raise ConfigError(f"{_refusal}: {self.title}", fix="load the model without `untrusted` if you trust it")
        fix = f"repair the package, or remove it: pip uninstall {self.distribution}"
        with self.blame("cannot be imported", fix), redirect_stdout(sys.stderr):
            return self.entry_point.load()

    @contextmanager
    def blame(self, problem: str, fix: str = "") -> Iterator[None]:
        """Raise whatever the code of the plug-in raises in the block as the `error` about a problem."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, or a panic of Rust
            text = " ".join(str(TracebackException.from_exception(error)).split())  # also if its own __str__ raises
            raise self.error(f"{problem}: {type(error).__name__}: {text:.200}", fix) from error

    def error(self, problem: str, fix: str = "") -> ConfigError:
        """Return the error about a problem of this plug-in; by default, its author can fix it."""
        fix = fix or f"install another version of {self.distribution}, or report this to its author"
        return ConfigError(f"{self.title} {problem}", where=self.entry_point.value, fix=fix)

    def to_json(self) -> dict[str, str]:
        """Return kind, name and package as JSON values."""
        found = {"kind": KINDS[self.group], "name": self.name}
        return found | {"distribution": self.distribution, "version": self.version}


@cache
def installed_plugins(group: str) -> Mapping[str, tuple[InstalledPlugin, ...]]:
    """Return the plug-ins of a group by name, in alphabetical order; nothing is imported.

    Several plug-ins of one name are an error when it is used: see `choose_plugin`.
    """
    from importlib.metadata import entry_points

    found: dict[str, tuple[InstalledPlugin, ...]] = {}
    if not group:
        return found
    for entry_point in sorted(entry_points(group=group), key=lambda each: each.name):
        package = entry_point.dist
        plugin = InstalledPlugin(
            group, entry_point.name, package.name if package else "", package.version if package else "", entry_point
        )
        found[plugin.name] = (*found.get(plugin.name, ()), plugin)
    return found


def choose_plugin(group: str, name: str) -> InstalledPlugin | None:
    """Return the plug-in of that name; None if there is none.

    Raise ConfigError if several packages have one of that name.
    """
    plugins = installed_plugins(group).get(name, ())
    if len(plugins) > 1:
        origins = " and ".join(plugin.origin for plugin in plugins)
        raise ConfigError(
            f"{KINDS[group]} {name!r} is a plug-in of {origins}",
            fix=f"remove all but one of these packages: pip uninstall {plugins[-1].distribution}",
        )
    return plugins[0] if plugins else None


def forbid_plugins(reason: str) -> None:
    """Refuse to load any plug-in in this process; `reason` begins the error."""
    global _refusal
    _refusal = reason
