"""Names of the outputs that explanations have, and tasks without any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gpupipe.errors import DataError
from gpupipe.model_parts.goal import Goal

UNEXPLAINED = ("clustering", "embedding")
MOST_REASONS = 100  # that are compared with the names of copied columns; a model has rarely more columns


def require_explainable(goal: Goal) -> None:
    """Raise DataError if the task has no predictions to explain: clusters and embeddings."""
    if goal.task in UNEXPLAINED:
        raise DataError(
            f"a model of the task {goal.task} has no predictions to explain", fix="explain a model with a target"
        )


def margin_names(goal: Goal, classes: Sequence[Sequence[int]] | None = None) -> tuple[str, ...]:
    """Return the names of several margins: class labels, quantiles, or targets with their classes.

    There are none for a single margin. `classes` has the class codes that have a margin, for each target; by default,
    all. A binary target has one margin.
    """
    if goal.quantiles:
        return goal.quantile_names
    if goal.task != "multiclass" and not goal.targets:
        return ()
    codes = classes or [range(own.n_classes) for own in goal.each]
    names: list[str] = []
    for own, present in zip(goal.each, codes, strict=True):
        prefix = own.target or "" if goal.targets else ""
        if own.task == "multiclass":
            texts = own.label_texts
            names += [f"{prefix}_{texts[code]}" if prefix else texts[code] for code in present]
        else:
            names.append(prefix)
    return tuple(names)


def margin_places(goal: Goal, outputs: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Return the positions of the margins of each target: one for each class code, -1 for a class without a margin.

    Numbers and two classes have one position, quantiles one per level. `outputs` are from `margin_names`.

    Examples
    --------
    >>> margin_places(Goal("multiclass", "size", ("L", "M", "S")), ("L", "S"))  # M never occurred in training
    [(0, -1, 1)]
    """
    if goal.quantiles:
        return [tuple(range(len(outputs)))]
    places, start = [], 0
    for own in goal.each:
        alone = [""] if not goal.targets else [own.target or ""]
        names = margin_names(own) if own.task == "multiclass" else alone
        prefix = f"{own.target}_" if own.task == "multiclass" and goal.targets else ""
        found = []
        for name in names:
            has_margin = (start < len(outputs) and outputs[start] == prefix + name) or not outputs
            found.append(start if has_margin else -1)
            start += has_margin
        places.append(tuple(found))
    return places


def middle_quantile(goal: Goal) -> int:
    """Return the position of the level nearest to the median."""
    return min(range(len(goal.quantiles)), key=lambda i: abs(goal.quantiles[i] - 0.5))


def reason_names(goal: Goal, n: int) -> list[str]:
    """Return the names of the output columns of the `n` strongest contributions, at most 100."""
    kinds = ("", "_value", "_contribution")
    names = [f"reason_{k}{kind}" for k, kind in product(range(1, min(n, MOST_REASONS) + 1), kinds)]
    return goal.outputs(lambda own: names)
