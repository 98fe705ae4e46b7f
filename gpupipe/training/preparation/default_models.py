"""Default models of a run whose configuration names none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpupipe.backends.base import Backend
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import ModelEntry
from gpupipe.model_parts.goal import Goal
from gpupipe.models import library_refusal

DEFAULT_MODELS = {
    "binary": ("logistic_regression", "hist_gradient_boosting"),
    "multiclass": ("logistic_regression", "hist_gradient_boosting"),
    "regression": ("ridge", "hist_gradient_boosting"),
    "quantile": ("hist_gradient_boosting",),
    "ranking": ("xgboost",),
}
ON_A_GPU = {"hist_gradient_boosting": "xgboost"}  # replacements of default models that do not train on a GPU


class DefaultModels(NamedTuple):
    """The default models, with their tuned values, and notes on those that were dropped."""

    entries: tuple[ModelEntry, ...]
    notes: tuple[str, ...]


def default_entries(goal: Goal, on_gpu: bool, lacks: Callable[[str], bool] = lacks_nothing) -> DefaultModels:
    """Return the default models for task and device; on a GPU without those whose library is missing.

    Each task has one on a GPU that needs XGBoost alone.
    """
    task = goal.each[0].task
    names = [ON_A_GPU.get(name, name) if on_gpu else name for name in DEFAULT_MODELS[task]]
    entries, notes = [], []
    for entry in (fill_entry(ModelEntry(name=name), goal) for name in names):
        if on_gpu and (refusal := library_refusal(entry.params, task, lacks)):
            notes.append(f"default models without {entry.name}: {refusal.what}")
        else:
            entries.append(entry)
    return DefaultModels(tuple(entries), tuple(notes))


def fill_entries(entries: Sequence[ModelEntry], goal: Goal, backend: Backend) -> tuple[ModelEntry, ...]:
    """Return entries with tuned values; a note of the backend names each default that gives way to a stated value."""
    for entry in entries:
        for note in entry.params.default_notes(goal.each[0].task):
            backend.note(f"{entry.label}: {note}")
    return tuple(fill_entry(entry, goal) for entry in entries)


def fill_entry(entry: ModelEntry, goal: Goal) -> ModelEntry:
    """Return an entry with the tuned values of parameters that were not stated, those of the first target."""
    return entry.model_copy(update={"params": entry.params.for_task(goal.each[0].task)})
