"""The model to train, and its name in the peer protocol."""

from __future__ import annotations

from typing import Any

from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.models import MODELS

NO_MODEL = "none"  # features only

# name in the peer protocol → gpupipe's name, and the parameters that the peers use
PEER_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "lr": ("logistic_regression", {"max_iter": 200}),
    "hgb": ("hist_gradient_boosting", {"defaults": "library"}),
    "rf": ("random_forest", {"defaults": "library", "n_estimators": 100, "max_depth": 8, "min_samples_leaf": 20}),
    "xgb": ("xgboost", {"defaults": "library", "n_estimators": 100, "max_depth": 6, "learning_rate": 0.1}),
}


def choose_model(config: Config, name: str | None) -> ModelEntry | None:
    """Return the model to train; None, meaning the default of the task, if neither `name` nor `config` has one.

    `name` is the label or name of a model in the configuration; a name in the peer protocol, which selects the
    parameters of the peers; or the name of any model, with default parameters. "none" or None: the first of the
    configuration. Raise ConfigError if there is no such model.
    """
    if name is None or name == NO_MODEL:
        return config.models[0] if config.models else None
    for entry in config.models:
        if name in (entry.label, entry.name):
            return entry
    if name in PEER_MODELS:
        model, params = PEER_MODELS[name]
        return ModelEntry(name=model, params=params)
    if name not in MODELS:
        known = [*(entry.label for entry in config.models), *PEER_MODELS, *MODELS.names(), NO_MODEL]
        hint = did_you_mean(name, known) or f"one of {', '.join(dict.fromkeys(known))}"
        raise ConfigError(f"there is no model {name!r}", where="--model", fix=hint)
    return ModelEntry(name=name)


def peer_word(entry: ModelEntry | None, name: str | None) -> str:
    """Return the name of the model in the peer protocol.

    Raise ConfigError if it has none.
    """
    if name == NO_MODEL:
        return NO_MODEL
    for word, (model, _) in PEER_MODELS.items():
        if entry is not None and entry.name == model:
            return word
    known = ", ".join(f"{word} ({model})" for word, (model, _) in PEER_MODELS.items())
    what = "the configuration has no model" if entry is None else f"the peer protocol has no model {entry.name}"
    raise ConfigError(what, where="--peer", fix=f"pass --model: {known}, or {NO_MODEL} for features only")


def describe(entry: ModelEntry) -> str:
    """Return the name of a model with the parameters that differ from the defaults."""
    changed = entry.params.model_dump(exclude_defaults=True)
    params = ", ".join(f"{name}={value}" for name, value in changed.items())
    return f"{entry.name} ({params})" if params else entry.name
