"""A configuration in a few lines: what differs from the defaults."""

from __future__ import annotations

from typing import Any

import yaml

from gpupipe.config.features import op_name
from gpupipe.config.models import ModelEntry
from gpupipe.config.scalars import Dumper
from gpupipe.config.sections import Config
from gpupipe.features import FeatureOp

WIDTH = 100
SECTIONS = ("device", "seed", "split", "evaluate", "limits", "cluster", "gpu")


def summary_yaml(config: Config) -> str:
    """Return the settings of a configuration that differ from their defaults, as compact YAML for people.

    Values of the environment and passwords are hidden. It is not a configuration file: the
    source is shown as its label.
    """
    dumped = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    shown: dict[str, Any] = {"source": config.source.label}
    shown |= {key: value for key, value in dumped["source"].items() if key not in ("path", "frame", "generate")}
    shown |= {"tables": {name: f"{t.label}, {t.cardinality}" for name, t in config.tables.items()}}
    shown |= {"data": dumped.get("data")}
    shown |= {"features": list(map(_op, config.features)), "models": list(map(_model, config.models))}
    shown |= {section: dumped.get(section) for section in SECTIONS}
    text = yaml.dump(
        {key: value for key, value in shown.items() if value not in (None, {}, [])},
        Dumper=Dumper, default_flow_style=None, sort_keys=False, allow_unicode=True, width=WIDTH,
    )  # fmt: skip
    return config.origin.redactor.hide(text).rstrip()


def _op(op: FeatureOp) -> dict[str, Any]:
    return {op_name(op): op.model_dump(mode="json", by_alias=True, exclude_defaults=True)}


def _model(entry: ModelEntry) -> Any:
    params = entry.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    name = entry.name if entry.label == entry.name else f"{entry.label} ({entry.name})"
    return {name: params} if params else name
