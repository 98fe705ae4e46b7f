"""Initial course from one point to another."""

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
    """Make the initial course from one point to another, in degrees clockwise from north, 0 to 360.

    The new column is ``bearing`` unless `as` names it; null where a coordinate is, 0 where the points are the same.
    As 359 lies beside 1, `cyclic` makes the sine and the cosine of the course in its place: ``bearing_sin`` (east) and
    ``bearing_cos`` (north).
    """

    cyclic: bool = Field(False, description="Make the sine and the cosine of the course, in place of degrees.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the course, or its sine and cosine."""
        points, origin = self.points(builder, "bearing")
        course = combine(self.name or "bearing", "BEARING", points, 1.0, origin)
        if not self.cyclic:
            builder.add(course)
            return
        for label, phase in (("sin", 0.0), ("cos", math.pi / 2)):
            name = f"{course.name}_{label}"
            builder.add(replace(course.then("SINE", math.pi / 180, phase), name=name, root=name))
