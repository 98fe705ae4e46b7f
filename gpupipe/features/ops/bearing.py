"""Initial bearing between two points on the earth."""

from __future__ import annotations

import math
from dataclasses import replace

from pydantic import Field

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.two_points import TwoPoints
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import combine


@OPS.register("bearing")
class Bearing(TwoPoints):
    """Compute the initial bearing from one point on the earth to another, in degrees clockwise from north, in [0, 360).

    With latitude φ and longitude λ, ``atan2(sin(λ2 - λ1) * cos(φ2), cos(φ1) * sin(φ2) - sin(φ1) * cos(φ2) * cos(λ2 -
    λ1))``. Null where a coordinate is null or not in degrees, as in `haversine`; 0 where the points are equal. 359
    degrees are next to 1: with `cyclic`, the op gives sine and cosine instead.

    Output: one column, ``bearing`` unless ``as`` names it; with `cyclic`, ``bearing_sin`` (east) and ``bearing_cos``
    (north); float32. The coordinates remain features.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"lat": [52.5], "lon": [13.375], "to_lat": [48.125], "to_lon": [11.5]})
        >>> ops = [{"bearing": {"from": ["lat", "lon"], "to": ["to_lat", "to_lon"]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
            lat     lon  to_lat  to_lon     bearing
        0  52.5  13.375  48.125    11.5  196.033066
    """

    cyclic: bool = Field(False, description="Add sine and cosine of the bearing instead of degrees.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the bearing, or its sine and cosine."""
        points, origin = self.points(builder, "bearing")
        course = combine(self.name or "bearing", "BEARING", points, 1.0, origin)
        if not self.cyclic:
            builder.add(course)
            return
        for label, phase in (("sin", 0.0), ("cos", math.pi / 2)):
            name = f"{course.name}_{label}"
            builder.add(replace(course.then("SINE", math.pi / 180, phase), name=name, root=name))
