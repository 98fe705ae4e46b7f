"""Rule that decides whether speed is lost: a ratio exceeds its reference by a quarter in two of three turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

LIMIT = 1.25  # times the reference
MOST_BAD = 1  # turns above the limit that are noise


def lost(turns: Sequence[Mapping[str, float]], reference: Mapping[str, float]) -> dict[str, str]:
    """Return the measures whose ratio is lost, and why.

    Each turn has the ratio of each measure: CPU seconds of gpupipe divided by those of the peer. A measure without a
    reference is lost too, so that none is forgotten.

    >>> lost([{"read": 0.5}, {"read": 0.7}, {"read": 0.51}], {"read": 0.5})
    {}
    >>> lost([{"read": 0.7}, {"read": 0.7}, {"read": 0.51}], {"read": 0.5})
    {'read': '0.700, 0.700, 0.510; expected at most 0.625, 1.25 times the reference 0.500'}
    """
    found = {}
    for name in medians(turns):
        ratios = [turn[name] for turn in turns]
        if name not in reference:
            found[name] = "no reference"
            continue
        limit = LIMIT * reference[name]
        if sum(ratio > limit for ratio in ratios) > MOST_BAD:
            shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
            found[name] = f"{shown}; expected at most {limit:.3f}, {LIMIT} times the reference {reference[name]:.3f}"
    return found


def is_decided(turns: Sequence[Mapping[str, float]], reference: Mapping[str, float], n_turns: int) -> bool:
    """Return whether the turns that are missing to `n_turns` cannot change what is `lost`.

    >>> is_decided([{"read": 0.5}, {"read": 0.5}], {"read": 0.5}, 3)
    True
    >>> is_decided([{"read": 0.5}, {"read": 0.7}], {"read": 0.5}, 3)
    False
    """
    missing = n_turns - len(turns)
    counts = [sum(turn[name] > LIMIT * limit for turn in turns) for name, limit in reference.items()]
    return all(bad > MOST_BAD or bad + missing <= MOST_BAD for bad in counts)


def medians(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median ratio of each measure."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]}
