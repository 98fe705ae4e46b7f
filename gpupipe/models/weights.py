"""Class weights as row weights, the only form that every estimator supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.units import is_number

if TYPE_CHECKING:
    from gpupipe.typing import Array


def row_weights(
    y: Array,
    class_weight: Any,
    labels: Sequence[str],
    n_classes: int,
    sample_weight: Array | None = None,
) -> Array | None:
    """Return the weight of each row, or None if all rows weigh 1; `sample_weight` is multiplied in.

    Raise ConfigError if a label is unknown.

    `y` are class codes. `class_weight` is "balanced", n_rows / (n_classes × rows of the class) as in scikit-learn, or
    maps labels to weights: a label that is not named weighs 1. ``"balanced_subsample"`` is applied by the forest
    itself. `labels` has the label of each code; it is empty if the labels are the codes.
    """
    import numpy as np

    if class_weight is None or class_weight == "balanced_subsample":
        return sample_weight
    if class_weight == "balanced":
        mass = np.bincount(y, weights=sample_weight, minlength=n_classes)
        by_code = mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, 1.0))
    else:
        by_code = np.ones(n_classes)
        for label, weight in class_weight.items():
            by_code[_code(label, list(labels) or [str(code) for code in range(n_classes)])] = weight
    weights = by_code[y]
    both: Array | None = weights if sample_weight is None else weights * sample_weight
    return both


def takes_no_weights(name: str) -> ConfigError:
    """Return the error that a model cannot be trained with row weights."""
    return ConfigError(f"{name} takes no sample weights", fix="remove the model, or source.weight")


def code_of_label(label: Any, labels: Sequence[str]) -> int | None:
    """Return the class code of a YAML value: text, number or boolean; None if there is no such label.

    Examples
    --------
    >>> code_of_label(True, ["false", "true"]), code_of_label(1, ["0.0", "1.0"]), code_of_label("yes", ["no"])
    (1, 1, None)
    """
    text = str(label).lower() if isinstance(label, bool) else str(label)
    if text in labels:
        return labels.index(text)
    if isinstance(label, (int, float)):  # 1 and "1.0" are the same class
        for code, other in enumerate(labels):
            if is_number(other) and float(other) == label:
                return code
    return None


def require_labels(class_weight: Any, labels: Sequence[str]) -> None:
    """Raise ConfigError if class weights name a class that is not one of `labels`."""
    if isinstance(class_weight, dict):
        for label in class_weight:
            _code(label, labels)


def _code(label: Any, labels: Sequence[str]) -> int:
    code = code_of_label(label, labels)
    if code is None:
        hint = did_you_mean(str(label), labels) or f"the classes are {', '.join(labels[:20])}"
        raise ConfigError(f"class_weight has the unknown class {label!r}", where="models", fix=hint)
    return code
