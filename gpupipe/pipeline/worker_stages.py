"""Stages of the timeline on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict

from gpupipe.backends.base import Backend, DeviceUse
from gpupipe.partitions.workers import Workers
from gpupipe.pipeline.timeline import Stage, Timeline


def open_stage(
    timeline: Timeline, backend: Backend, workers: Workers | None, name: str
) -> AbstractContextManager[Stage]:
    """Record what the ``with`` block does as one stage: on the workers, or on the backend where there are none."""
    return timeline.backend_stage(backend, name) if workers is None else open_worker_stage(timeline, workers, name)


@contextmanager
def open_worker_stage(timeline: Timeline, workers: Workers, name: str) -> Iterator[Stage]:
    """Record what the ``with`` block has workers do as one stage; with what each of them did and holds by then.

    The tasks and seconds of a worker are those of this stage; workers that were lost are said.
    """
    before = {use.address: use for use in workers.usage()}
    with timeline.stage(name, device=workers.device, reason=f"{workers.label}; {workers.reason}".rstrip("; ")) as stage:
        with timeline.show_progress(workers.progress):
            yield stage
        for use in workers.usage():
            done = {"address": use.address, "rows": stage.rows_held.get(use.address, 0), **asdict(use)}
            if (earlier := before.get(use.address)) is not None and earlier.tasks <= use.tasks:
                done |= {"tasks": use.tasks - earlier.tasks, "seconds": use.seconds - earlier.seconds}
            stage.workers.append(done)
        stage.record_device_use(DeviceUse(fallbacks=workers.take_fallbacks()))
        for remark in workers.remarks():
            stage.note(remark, "warning")
