"""Summary of a model as text, and as HTML for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.inference.interface import LoadedModel
    from gpupipe.model_parts.goal import Goal

MOST_SHOWN = 30  # input columns, metrics, labels


def model_text(model: LoadedModel) -> str:
    """Return one line: name, task, target, numbers of inputs and features, device and directory."""
    of = f" of {_shorten(', '.join(model.goal.names), 40)!r}" if model.goal.names else ""
    return (
        f"{type(model).__name__}({_name(model)}: {model.goal.task}{of}, {len(model.inputs)} inputs, "
        f"{len(model.feature_names)} features, {model.backend.name}, {str(model.folder)!r})"
    )


def model_html(model: LoadedModel) -> str:
    """Return two HTML tables: the model, and its input columns."""
    goal, manifest = model.goal, model.manifest
    facts = {
        "model": _name(model),
        "task": _task_text(goal),
        "target": _join(list(goal.names)) or "none",
        "threshold": f"{model.decision.threshold:.4g}" if goal.task == "binary" else "",
        "features": f"{len(model.feature_names)}, computed on the {model.backend.name}",
        "metrics": _join(
            [f"{n} {v:.4g}" for n, v in manifest.get("metrics", {}).items() if isinstance(v, int | float)]
        ),
        "trained": f"{manifest.get('created', '')} with gpupipe {manifest.get('gpupipe', '')}",
        "directory": str(model.folder),
    }
    for own, decision in list(zip(goal.targets, model.decision.targets, strict=True))[:MOST_SHOWN]:
        threshold = f", threshold {decision.threshold:.4g}" if own.task == "binary" else ""
        facts[f"target {html.escape(own.target or '')}"] = _task_text(own) + threshold
    body = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items() if text)
    kinds = {
        column.source: f"{column.kind} ({column.dtype})" for column in model.features.input_schema if not column.derived
    }
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(kinds.get(name, ''))}</td></tr>"
        for name in model.inputs[:MOST_SHOWN]
    )
    more = len(model.inputs) - MOST_SHOWN
    rest = f"<tr><td>and {more} more</td><td></td></tr>" if more > 0 else ""
    return f"<table>{body}</table><table><tr><th>input column</th><th>kind</th></tr>{rows}{rest}</table>"


def _task_text(goal: Goal) -> str:
    return goal.task + (f", labels {_join(list(goal.label_texts))}" if goal.labels else "")


def _join(texts: list[str]) -> str:
    return ", ".join(texts[:MOST_SHOWN]) + (f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else "")


def _name(model: LoadedModel) -> str:
    return str(model.manifest.get("model", {}).get("name", "model"))


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
