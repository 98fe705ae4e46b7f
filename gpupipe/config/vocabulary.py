"""Words of gpupipe's own: choices of settings, and names of ops, models and metrics. None of them is a secret."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args, get_origin

from gpupipe.config.sections import Config
from gpupipe.features import OPS
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS
from gpupipe.settings import Settings


@cache
def known_words() -> frozenset[str]:
    """Return every word that a configuration may hold because gpupipe defines it.

    Examples
    --------
    >>> {"median", "stratify", "xgboost", "roc_auc"} - known_words()
    {'stratify'}
    """
    words = {name for registry in (OPS, MODELS, METRICS) for name in registry.names()}
    waiting: list[Any] = [Config, *(op for _, op in OPS.items()), *(model for _, model in MODELS.items())]
    seen = set()
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, Settings):
            if annotation not in seen:
                seen.add(annotation)
                waiting += [field.annotation for field in annotation.model_fields.values()]
        elif get_origin(annotation) is Literal:
            words |= {word for word in get_args(annotation) if isinstance(word, str)}
        else:
            waiting += get_args(annotation)
    return frozenset(words)
