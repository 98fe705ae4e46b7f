"""Base class of the ops on two points on the earth."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr

Point = Annotated[list[str], Field(min_length=2, max_length=2)]

MEDIAN_DEGREES = (90.0, 360.0)  # latitude, longitude
KEEPS_DEGREES = ("FILL", "CLIP")


class TwoPoints(FeatureOp):
    """Base class of the ops on a start and an end point; the coordinates remain features."""

    start: Point = Field(alias="from", description="Columns of latitude and longitude of the start, in degrees.")
    to: Point = Field(description="Columns of latitude and longitude of the end, in degrees.")
    name: str | None = Field(None, alias="as", description="Name of the new column; default: see the op.")

    def named_inputs(self) -> tuple[str, ...]:
        """Return the four coordinates."""
        return (*self.start, *self.to)

    def points(self, builder: ProgramBuilder, op: str) -> tuple[tuple[NumericExpr, ...], float]:
        """Return the four coordinates relative to an origin, and the latitude of the origin.

        Relative to a whole degree near the middle of the data, float32 resolves millimeters instead of meters. Raise
        ConfigError if a name does not match exactly one column, or a column does not contain degrees.
        """
        columns = [_coordinate(name, builder, op) for name in (*self.start, *self.to)]
        medians = builder.statistics.medians(columns)
        for i, (column, median) in enumerate(zip(columns, medians, strict=True)):
            if abs(median) > MEDIAN_DEGREES[i % 2]:
                raise ConfigError(
                    f"{op}: {column.name!r} is not a {('latitude', 'longitude')[i % 2]}: its median is {median:g}, "
                    f"expected a value in [-{MEDIAN_DEGREES[i % 2]:g}, {MEDIAN_DEGREES[i % 2]:g}]",
                    fix="specify [latitude, longitude], both in degrees",
                    names=[column.name],
                )
        origins = [round((a + b) / 2) for a, b in zip(medians[:2], medians[2:], strict=True)]
        centred = [column.then("CENTER", float(origins[i % 2]), 1.0) for i, column in enumerate(columns)]
        return tuple(centred), float(origins[0])


def _coordinate(name: str, builder: ProgramBuilder, op: str) -> NumericExpr:
    found = builder.select_numbers([name], op)
    if len(found) != 1:
        raise ConfigError(
            f"{op} takes one column for each coordinate; {name!r} matches {', '.join(c.name for c in found)}",
            names=[name],
        )
    if any(step.op not in KEEPS_DEGREES for step in found[0].transforms):
        raise ConfigError(
            f"{op} takes degrees; {found[0].name!r} has been changed by {builder.changed[found[0].name]}",
            fix=f"move {op} before that op, or keep the degrees by giving that op as: {found[0].name}_scaled",
            names=[found[0].name],
        )
    return found[0]
