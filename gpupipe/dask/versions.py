"""Check that the workers of a running cluster have the versions of the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from gpupipe.errors import ClusterError

# package → the number of version components that must match, and the reason
COMPARED = {
    "gpupipe": (3, "results depend on the code"),
    "python": (2, "functions and results are sent as pickles"),
    "distributed": (3, "Dask's own messages differ from release to release"),
    "numpy": (2, "NumPy releases may add numbers in a different order"),
}
SHOWN = 5


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise a ClusterError with both versions of every package that differs.

    Versions are by package, None if not installed; `theirs` by the address of a worker, or ``"the scheduler"``.
    """
    found = list(chain.from_iterable(_differences(ours, versions, where) for where, versions in theirs.items()))
    if found:
        more = [f"... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise ClusterError(
            "\n  ".join(["the versions of the cluster differ from those of this process:", *found[:SHOWN], *more]),
            fix="start its workers from the same environment or image as this process",
        )


def _differences(ours: Mapping[str, Any], versions: Mapping[str, Any], where: str) -> Iterator[str]:
    for package, (n_parts, why) in COMPARED.items():
        if package in versions and _parts(versions[package], n_parts) != _parts(ours[package], n_parts):
            there = versions[package] or "none"
            yield f"{package} {there} on {where}, {ours[package]} here: {why}"


def _parts(version: str | None, n_parts: int) -> list[str]:
    return (version or "").split(".")[:n_parts]


def process_versions(found: Mapping[str, Any], ours: str | None = None) -> dict[str, str | None]:
    """Return the versions in Dask's record of a process, and `ours` for gpupipe, which Dask does not report."""
    packages = found["packages"]
    python = ".".join(packages["python"].split(".")[:3])
    return {"gpupipe": ours, "python": python, "distributed": packages["distributed"], "numpy": packages["numpy"]}


def scheduler_versions(found: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the versions of a scheduler that are compared; it computes nothing."""
    versions = process_versions(found)
    return {name: versions[name] for name in ("python", "distributed")}
