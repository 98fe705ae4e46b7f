"""Great-circle distance of two points on the earth."""

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
    """Compute the great-circle distance of two points on the earth.

    With latitude φ and longitude λ, ``2 R asin(sqrt(sin((φ2 - φ1) / 2)**2 + cos(φ1) * cos(φ2) * sin((λ2 - λ1) /
    2)**2))``. The earth is a sphere of its mean radius, R = 6371.0088 km: results are within 0.5 % of the distance on
    the ellipsoid. Null where a coordinate is null or not in degrees: a latitude outside of [-90, 90], a longitude more
    than 720 from the middle of the training rows or from the other longitude. Longitudes may start at -180 or at 0.

    Output: one column, ``distance_km`` unless ``as`` names it; float32. The coordinates remain features.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"lat": [52.5], "lon": [13.375], "to_lat": [48.125], "to_lon": [11.5]})
        >>> ops = [{"haversine": {"from": ["lat", "lon"], "to": ["to_lat", "to_lon"]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
            lat     lon  to_lat  to_lon  distance_km
        0  52.5  13.375  48.125    11.5   504.322388
    """

    unit: Literal["km", "m", "mi"] = Field("km", description="Unit of the distance: kilometers, meters or miles.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the distance."""
        points, origin = self.points(builder, "haversine")
        name = self.name or f"distance_{self.unit}"
        builder.add(combine(name, "HAVERSINE", points, RADIUS[self.unit], origin))
