"""Columns that are places on the earth, by their names: ``pickup_latitude``, ``dropoffLng``, ``lat 2``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpupipe.starter.columns import TableColumns

COORDINATES = {
    "latitude": ({"lat", "latitude"}, 90.0),
    "longitude": ({"lon", "lng", "long", "longitude"}, 180.0),
}

Place = tuple[str, str]


def two_places(columns: TableColumns, names: Sequence[str]) -> tuple[Place, Place] | None:
    """Return latitude and longitude of the one place and of the other; None unless there are two places, no more.

    Which is the start is taken from the order of the columns: the distance is the same either way.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        if columns.kind(name) == "numeric":
            coordinate, place = _reading(name, columns.facts[name].range)
            if coordinate:
                # Two names that read the same leave open which is meant.
                taken = found.setdefault(place, {})
                taken[coordinate] = "" if coordinate in taken else name
    places = [(place["latitude"], place["longitude"]) for place in found.values() if len(place) == len(COORDINATES)]
    return (places[0], places[1]) if len(places) == 2 and all(map(all, places)) else None


def _reading(name: str, bounds: tuple[float, float]) -> tuple[str, tuple[str, ...]]:
    """Return which coordinate a column is, ``""`` for none, and of which place: the rest of the words of its name."""
    words = re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    for coordinate, (spellings, most) in COORDINATES.items():
        rest = tuple(word for word in words if word not in spellings)
        if len(rest) == len(words) - 1 and -most <= bounds[0] and bounds[1] <= most:
            return coordinate, rest
    return "", ()
