"""Record of the op ``generate``: the features that it kept, and the number of candidates that it tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

OP = "Generate"
SELECTION = "(all)"  # the state of the selection; each other state belongs to one feature


@dataclass(frozen=True)
class GeneratedFeature:
    """One kept feature.

    `family` is ``"arithmetic"``, ``"crosses"`` or ``"groups"``, and `inputs` are the columns that it combines. `gain`
    is the share of the squared residual that it explains out of fold, more than its inputs do.
    """

    name: str
    family: str
    inputs: tuple[str, ...]
    gain: float | None = None


@dataclass(frozen=True)
class GeneratedFeatures:
    """All features of ``generate``, and how they were chosen."""

    features: tuple[GeneratedFeature, ...] = ()  # the kept ones, the highest gain first
    tried: Mapping[str, int] = field(default_factory=dict)  # number of candidates of each family
    # Highest gain of any tested candidate of the family on permuted residuals: what chance achieves
    yardsticks: Mapping[str, float] = field(default_factory=dict)
    n_screened: int = 0  # number of candidates that exceed the yardstick of their family
    # `base_loss`, `loss`: loss of a short model on training rows that selected no feature, without and with the
    # features
    base_loss: float | None = None
    loss: float | None = None
    n_rows: int = 0  # number of training rows that the selection used

    @property
    def n_tried(self) -> int:
        """Number of candidates."""
        return sum(self.tried.values())


def read_generated(states: Iterable[Mapping[str, Any]]) -> GeneratedFeatures | None:
    """Return the record in the learned states of fitted features; None without the op.

    If the op occurs more than once, the counts are sums, and the losses are those of the last one.

    Examples
    --------
    >>> selection = {"op": "Generate", "column": "(all)", "tried": {"arithmetic": 12}, "sampled_rows": 5000}
    >>> feature = {"op": "Generate", "column": "a / b", "family": "arithmetic", "inputs": ["a", "b"], "gain": 0.02}
    >>> found = read_generated([selection, feature])
    >>> found.n_tried, found.features[0].name
    (12, 'a / b')
    """
    own: list[Mapping[str, Any]] = []
    for state in states:
        if state["op"] == OP and state not in own:  # the views of an ensemble share one selection
            own.append(state)
    if not own:
        return None
    tried: dict[str, int] = {}
    yardsticks: dict[str, float] = {}
    selections = [state for state in own if state["column"] == SELECTION]
    for state in selections:
        for family, n in state.get("tried", {}).items():
            tried[family] = tried.get(family, 0) + int(n)
        for family, gain in state.get("yardsticks", {}).items():
            yardsticks[family] = max(yardsticks.get(family, gain), gain)
    features = [
        GeneratedFeature(state["column"], state.get("family", ""), tuple(state.get("inputs", ())), state.get("gain"))
        for state in own
        if state["column"] != SELECTION
    ]
    last = selections[-1] if selections else {}
    return GeneratedFeatures(
        tuple(sorted(features, key=lambda each: -(each.gain or 0.0))),
        tried,
        yardsticks,
        sum(int(state.get("screened", 0)) for state in selections),
        last.get("base_loss"),
        last.get("loss"),
        int(last.get("sampled_rows", 0)),
    )
