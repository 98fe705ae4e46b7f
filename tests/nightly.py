"""Tests of the night: those that take long, and fail only if rarely edited parts change.

They run with ``--nightly``, once a day, and if the command names their file or folder. They also run if their own or
their guarded files differ from those of a commit at which all passed: the one in `tests/nightly.txt`, which
``make nightly`` writes, or the one of ``--since``. `NIGHTLY` has the guards of files and folders; a single test has a
marker: ``@pytest.mark.nightly("kernels/")``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PASSED = Path(__file__).with_name("nightly.txt")
ALWAYS = ("constraints.txt", "tests/conftest.py", "tests/nightly.py")
# Files and folders of tests, and what they guard: paths, or beginnings of paths.
NIGHTLY: dict[str, tuple[str, ...]] = {
    "tests/benchmarks/": ("benchmarks/",),
    "tests/cli/test_bench.py": ("gpupipe/bench/", "gpupipe/cli/bench.py"),
    "tests/cli/test_run_neural.py": ("gpupipe/children/", "gpupipe/models/neural/", "gpupipe/training/"),
    "tests/configs/test_notebook.py": ("configs/", "gpupipe/pipeline/", "gpupipe/timeline/display/"),
    "tests/dask/test_health.py": ("gpupipe/children/", "gpupipe/dask/"),
    "tests/dask/test_library_calls.py": ("gpupipe/dask/",),
    "tests/dask/test_networks.py": ("gpupipe/dask/", "gpupipe/models/neural/"),
    "tests/features/test_on_device.py": ("gpupipe/backends/gpu/", "gpupipe/features/", "gpupipe/table/", "kernels/"),
    "tests/io/device/": ("gpupipe/backends/gpu/", "gpupipe/io/", "gpupipe/table/"),
    "tests/kernels/": (
        "gpupipe/backends/",
        "kernels/",
        "tests/simulator.py",
        "tools/device_code/",
        "tools/machine_code/",
    ),
    "tests/models/neural/": ("gpupipe/backends/", "gpupipe/models/", "gpupipe/tensors/"),
    "tests/partitions/test_statistics.py": ("gpupipe/features/", "gpupipe/partitions/", "kernels/"),
    "tests/table/device/": ("gpupipe/backends/gpu/", "gpupipe/table/"),
    "tests/test_installs.py": (".ci/constraints.txt", "pyproject.toml"),
    "tests/test_plugin_template.py": ("docs/", "gpupipe/plugins/", "gpupipe/registry.py"),
    "tests/tools/": ("tools/",),
    "tests/trackers/test_mlflow.py": ("gpupipe/children/", "gpupipe/timeline/", "gpupipe/trackers/"),
    "tests/pipeline/test_on_device.py": (
        "gpupipe/backends/gpu/",
        "gpupipe/io/",
        "gpupipe/table/",
        "gpupipe/training/",
        "kernels/",
    ),
}


class Nightly:
    """Plug-in that leaves the tests of the night out, unless they are requested or their files changed."""

    def __init__(self, config: pytest.Config) -> None:
        self.all: bool = config.getoption("--nightly")
        self.since: str = config.getoption("--since") or PASSED.read_text(encoding="utf-8").strip()
        self.changed = changed_files(self.since, config.rootpath)
        self.root = config.rootpath
        paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
        self.requested = tuple(self._name(path) for path in paths if path.is_relative_to(self.root))

    def pytest_report_header(self) -> str:
        if self.all:
            return "tests of the night: all"
        if self.changed is None:
            return f"tests of the night: whole files and folders, since git does not know the commit {self.since}"
        due = [name for name, guarded in NIGHTLY.items() if self._is_due(name, guarded)]
        listed = ", ".join(due) or "none"
        return f"tests of the night, if what they guard changed since {self.since:.12}: {listed}; --nightly runs all"

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Do not even import files and folders that are not due, unless the command names them."""
        name = self._name(collection_path) + "/" * collection_path.is_dir()
        if name not in NIGHTLY or any(f"{path}/".startswith(name.rstrip("/") + "/") for path in self.requested):
            return None
        return None if self._is_due(name, NIGHTLY[name]) else True

    @pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect single tests that are not due."""
        marked = {item: mark for item in items if (mark := item.get_closest_marker("nightly"))}
        left = {
            item
            for item, mark in marked.items()
            if not self.all and (self.changed is None or not self._is_due(self._name(item.path), mark.args))
        }
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _is_due(self, name: str, guarded: tuple[str, ...]) -> bool:
        """Return whether tests run: on request, or because their own or guarded files changed."""
        if self.all or self.changed is None:
            return True
        guards = next((files for tests, files in NIGHTLY.items() if name.startswith(tests)), ())
        return any(file.startswith((name, *ALWAYS, *guarded, *guards)) for file in self.changed)


@cache
def changed_files(since: str, root: Path) -> list[str] | None:
    """Return the files that differ from a commit; None if git does not know the commit, or is not there."""
    command = ["git", "-C", str(root), "diff", "--name-only", "--no-renames", since, "--"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()


def nightly_unless(is_daily: Callable[..., bool], cases: Iterable[Any]) -> list[Any]:
    """Return the cases, those for which `is_daily` is false with the marker ``nightly``.

    A case is a value, or a tuple of the values of several arguments.
    """
    every = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[pytest.mark.nightly] * (not is_daily(*case))) for case in every]
