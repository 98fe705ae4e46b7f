"""Comparison of features computed by a local cluster and by one process: bits and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.device.parity import FeatureMatrices, config_for, fit_matrices
from gpupipe.backends import choose
from gpupipe.config import Config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import open_job

TIMES = 2  # the first one includes compilation
VIEW: View = "dense"


def compare(config: Config, device: str, settings: ClusterSettings) -> dict[str, Any]:
    """Compare the features that both compute for `config`, and their seconds.

    Returns
    -------
    dict
        ``workers``; ``seconds`` of the ``cluster`` (without its start) and of one process, ``alone``; ``differences``
        as text, empty if every bit is equal.
    """
    config = config_for(config, device)
    # The cluster runs first, because this process may reserve device memory that the workers need.
    with connect(settings, device, config.device_options) as workers:
        n_workers = workers.n_workers
        shared, of_cluster = _timed(lambda: open_job(config, choose("cpu"), Timeline(), workers))
    alone, of_one = _timed(lambda: open_job(config, choose(device, config.device_options), Timeline()))
    seconds = {"cluster": of_cluster, "alone": of_one}
    return {"workers": n_workers, "seconds": seconds, "differences": differences(shared, alone)}


def differences(shared: FeatureMatrices, alone: FeatureMatrices) -> list[str]:
    """Return the differences between two fits, as text."""
    pairs = {
        "schema": (shared.features.schema, alone.features.schema),
        "features": (shared.features.features, alone.features.features),
        "program": (_bytes(shared.features.program), _bytes(alone.features.program)),
        "training matrix": (shared.training.tobytes("F"), alone.training.tobytes("F")),
        "test matrix": (shared.served.tobytes("F"), alone.served.tobytes("F")),
    }
    return [f"the {name} differs" for name, (ours, theirs) in pairs.items() if ours != theirs]


def line_of(found: Mapping[str, Any]) -> str:
    """Return the comparison as a line of text."""
    same = "; ".join(found["differences"]) or "equal bits"
    cluster, alone = found["seconds"]["cluster"], found["seconds"]["alone"]
    return f"{found['workers']} workers: {cluster:.2f} s, one process: {alone:.2f} s; {same}"


def _timed(job_of: Callable[[], Job]) -> tuple[FeatureMatrices, float]:
    for _ in range(TIMES):
        start = time.perf_counter()
        found = fit_matrices(job_of(), VIEW)
        seconds = time.perf_counter() - start
    return found, seconds


def _bytes(program: Any) -> tuple[bytes, ...]:
    return program.instructions.tobytes(), program.params.tobytes(), program.luts.tobytes()
