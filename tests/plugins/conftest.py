"""Installed packages with plug-ins, for the time of one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gpupipe import entry_points
from gpupipe.plugins.states import REGISTRIES

Install = Callable[..., Path]


def write_package(
    site: Path, distribution: str, version: str, plugins: Mapping[str, Mapping[str, str]], source: str = ""
) -> None:
    """Write a package as pip would install it: metadata with entry points by group, and one module."""
    metadata = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    groups = [[f"[{group}]", *(f"{name} = {value}" for name, value in each.items())] for group, each in plugins.items()]
    (metadata / "entry_points.txt").write_text("\n".join(line for group in groups for line in group))
    (site / f"{distribution.replace('-', '_')}.py").write_text(source)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Yield a function that replaces a package by another version, as in a new process."""
    modules: set[str] = set()

    def forget() -> None:
        entry_points.installed_plugins.cache_clear()
        for registry in REGISTRIES.values():
            for name in registry._plugins:
                del registry._parts[name]
            registry._plugins.clear()
        for module in modules:
            sys.modules.pop(module, None)

    def install_package(
        distribution: str, version: str, plugins: Mapping[str, Mapping[str, str]], source: str = ""
    ) -> Path:
        site = tmp_path / f"site-{distribution}-{version}"
        write_package(site, distribution, version, plugins, source)
        forget()
        for earlier in [entry for entry in sys.path if f"site-{distribution}-" in entry]:
            sys.path.remove(earlier)
        monkeypatch.syspath_prepend(str(site))
        modules.add(distribution.replace("-", "_"))
        return site

    yield install_package
    forget()
    monkeypatch.undo()
    entry_points.installed_plugins.cache_clear()


@pytest.fixture
def uninstall() -> Callable[[str], None]:
    """Return a function that removes an installed package, as in a new process."""

    def remove(distribution: str) -> None:
        for entry in [entry for entry in sys.path if f"site-{distribution}-" in entry]:
            sys.path.remove(entry)
        sys.modules.pop(distribution.replace("-", "_"), None)
        entry_points.installed_plugins.cache_clear()
        for registry in REGISTRIES.values():
            for name in registry._plugins:
                del registry._parts[name]
            registry._plugins.clear()

    return remove
