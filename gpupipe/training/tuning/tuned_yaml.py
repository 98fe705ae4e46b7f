"""The best parameters of a run's searches as a ``models:`` section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from gpupipe.config import ModelEntry
from gpupipe.config.scalars import Dumper

NAME = "tuned.yaml"
HEADER = "# Tuned models with the best parameters of this run: they replace the entries of the same names.\n"


def tuned_yaml(entries: Sequence[ModelEntry]) -> str:
    """Return the content of `NAME`: the section `models_yaml` with a comment."""
    return HEADER + models_yaml(entries)


def models_yaml(entries: Sequence[ModelEntry]) -> str:
    """Return a ``models:`` section with the entries, which have the parameters of their best trials."""
    section = {"models": [_item(entry) for entry in entries]}
    return str(yaml.dump(section, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120))


def _item(entry: ModelEntry) -> dict[str, Any]:
    item: dict[str, Any] = {entry.name: entry.params.model_dump(mode="json", by_alias=True, exclude_unset=True)}
    return item if entry.label == entry.name else {**item, "as": entry.label}
