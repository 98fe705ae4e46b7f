"""Imports of the libraries that a run needs, so that no stage is billed for them."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from gpupipe.config import Config, ModelEntry
from gpupipe.model_parts.decision import is_learned
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.job import Job
from gpupipe.units import format_duration

REPORT_MODULES = ("jinja2", "gpupipe.pipeline.records.run_report")
TUNING_MODULES = ("optuna", "sklearn.model_selection", "gpupipe.training.tuning.search")
CALIBRATION_MODULES = {
    "isotonic": "sklearn.isotonic", "sigmoid": "sklearn.linear_model", "temperature": "scipy.optimize",
}  # fmt: skip


def import_libraries(job: Job, entries: Sequence[ModelEntry]) -> None:
    """Import the libraries of all stages after reading, and record the time of each in the job's timeline."""
    modules = evaluation_modules(job.config, job.goal.task)
    if job.workers is None:
        for entry in entries:
            modules += entry.params.modules(job.goal.task, job.backend)
    if any(entry.tune is not None for entry in entries):
        modules += TUNING_MODULES
    if job.config.report.enabled:
        modules += REPORT_MODULES
    record_imports(job.timeline, modules)


def evaluation_modules(config: Config, task: str) -> list[str]:
    """Return the modules that splits, metrics and decisions of a task import."""
    modules = []
    if config.split.cv is not None or is_learned(config.evaluate):
        modules.append("sklearn.model_selection")
    if config.evaluate.calibrate != "none":
        modules.append(CALIBRATION_MODULES[config.evaluate.calibrate])
    if task == "clustering":
        modules.append("sklearn.metrics")
    return modules


def record_imports(timeline: Timeline, modules: Sequence[str]) -> None:
    """Import `modules` and add the wall seconds of each library to ``timeline.imports``.

    A library that cannot be imported is skipped: the stage that needs it raises the error, with its fix.
    """
    libraries: dict[str, float] = {}
    with _without_collections():
        for module in modules:
            if module in sys.modules:
                continue
            start = time.perf_counter()
            try:
                import_module(module)
            except ImportError:
                continue
            library = module.partition(".")[0]
            libraries[library] = libraries.get(library, 0.0) + time.perf_counter() - start
    timeline.imports.update(libraries)
    if foreign := [library for library in libraries if library != "gpupipe"]:
        timeline.note(f"imported {', '.join(foreign)} in {format_duration(sum(libraries.values()))}")


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep Python from looking for garbage, a tenth of the time of an import, whose objects all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
