"""Conversion of configurations to YAML: with every default filled in, or only what differs from the defaults."""

from __future__ import annotations

from typing import Any

import yaml

from gpupipe.config.document import EnvironmentValue, Node
from gpupipe.config.environment import escape
from gpupipe.config.features import op_name
from gpupipe.config.models import ModelEntry
from gpupipe.config.scalars import Dumper
from gpupipe.config.sections import Config
from gpupipe.features import FeatureOp
from gpupipe.io.files import as_text, mask


class _Reference(str):
    """Text with ``${NAME}``, written unchanged."""


class _Quoted(_Reference):
    """Reference that was quoted, so that the variable's value is always text."""


def resolved_yaml(config: Config) -> str:
    """Return YAML that `load_config` reads as an equal configuration.

    Values from the environment are written as ``${NAME}``, so the variables must be set to load it. Users, passwords
    and signatures written literally in a URL are masked and must be filled in again.
    """
    values = config.model_dump(mode="json", by_alias=True)
    return yaml.dump(
        _for_writing(values, config.origin.document),
        Dumper=_ResolvedDumper,
        sort_keys=False,
        allow_unicode=True,
        width=120,
    )


def _for_writing(value: Any, node: Node | None) -> Any:
    """Return a value as it is written to YAML; `node` is the node that it was read from, if any."""
    if node is not None and node.written is not None:
        return _referred(value, node.value, node.written)
    inner = None if node is None else node.value
    if isinstance(value, dict):
        below = inner if isinstance(inner, dict) else {}
        return {key: _for_writing(item, below.get(key)) for key, item in value.items()}
    if isinstance(value, list):
        items: list[Any] = inner if isinstance(inner, list) and len(inner) == len(value) else [None] * len(value)
        return [_for_writing(item, below) for item, below in zip(value, items, strict=True)]
    return escape(mask(as_text(value))) if isinstance(value, str) else value


def _referred(value: Any, read: Any, written: EnvironmentValue) -> Any:
    """Return `value` with the value that was `read` replaced by its reference, also inside a list or mapping."""
    if isinstance(value, dict):
        return {key: _referred(item, read, written) for key, item in value.items()}
    if isinstance(value, list):
        return [_referred(item, read, written) for item in value]
    if value is None or not _is_same(value, read):
        return _for_writing(value, None)
    return (_Reference if written.is_word else _Quoted)(mask(written.text))


def _is_same(value: Any, read: Any) -> bool:
    """Return whether a value equals the one read, as text or as a number."""
    if value == read or str(value) == str(read):
        return True
    try:
        return isinstance(value, int | float) and value == float(read)
    except (TypeError, ValueError):
        return False


class _ResolvedDumper(Dumper):
    pass


_ResolvedDumper.add_representer(_Reference, lambda dumper, text: dumper.represent_str(str(text)))
_ResolvedDumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


WIDTH = 100
SECTIONS = ("device", "seed", "split", "evaluate", "limits", "track", "cluster", "gpu")


def summary_yaml(config: Config) -> str:
    """Return the settings that differ from their defaults, as compact YAML for display.

    Values from the environment and passwords are hidden. The result is not a configuration file: the source is shown
    as its label.
    """
    dumped = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    shown: dict[str, Any] = {"source": config.source.label}
    shown |= {key: value for key, value in dumped["source"].items() if key not in ("path", "frame", "generate", "uri")}
    shown |= {"tables": {name: f"{t.label}, {t.cardinality}" for name, t in config.tables.items()}}
    shown |= {"data": dumped.get("data")}
    shown |= {"features": list(map(_op, config.features)), "models": list(map(_model, config.models))}
    shown |= {section: dumped.get(section) for section in SECTIONS}
    text = yaml.dump(
        {key: value for key, value in shown.items() if value not in (None, {}, [])},
        Dumper=Dumper,
        default_flow_style=None,
        sort_keys=False,
        allow_unicode=True,
        width=WIDTH,
    )
    return config.origin.redactor.hide(text).rstrip()


def _op(op: FeatureOp) -> dict[str, Any]:
    return {op_name(op): op.model_dump(mode="json", by_alias=True, exclude_defaults=True)}


def _model(entry: ModelEntry) -> Any:
    params = entry.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    name = entry.name if entry.label == entry.name else f"{entry.label} ({entry.name})"
    return {name: params} if params else name
