"""Great-circle distance of two points."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.two_points import TwoPoints
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import combine

RADIUS = {"km": 6371.0088, "m": 6_371_008.8, "mi": 6371.0088 / 1.609344}  # mean radius of the earth (IUGG)


@OPS.register("haversine")
class Haversine(TwoPoints):
    """Make the great-circle distance of two points: ``haversine: {from: [lat1, lon1], to: [lat2, lon2], unit: km}``.

    The new column is ``distance_km`` unless `as` names it; null where a coordinate is. On a sphere of the earth's mean
    radius, 6371.0088 km: up to 0.5 % off the ellipsoid.
    """

    unit: Literal["km", "m", "mi"] = Field("km", description="Of the distance: kilometres, metres or miles.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the distance."""
        points, origin = self.points(builder, "haversine")
        name = self.name or f"distance_{self.unit}"
        builder.add(combine(name, "HAVERSINE", points, RADIUS[self.unit], origin))
