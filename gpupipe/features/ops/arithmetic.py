"""Ratios, differences, products and sums of columns."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, Producer, TimeExpr, combine
from gpupipe.units import TIME_UNITS_US, TimeUnit

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

# kind -> (instruction, word in the default name of the new column)
KINDS = {
    "ratio": ("DIVIDE", "per"),
    "difference": ("SUBTRACT", "minus"),
    "product": ("MULTIPLY", "times"),
    "sum": ("ADD", "plus"),
}
MOST_IN_A_NAME = 4
BULK = [0.05, 0.95]


def _selection(description: str) -> str | list[str] | None:
    field: str | list[str] | None = Field(None, description=f"{description} Names, globs or selectors.")
    return field


@OPS.register("arithmetic")
class Arithmetic(FeatureOp):
    """Compute one ratio, difference, product or sum of columns.

    Give exactly one of `ratio`, `difference`, `product` and `sum`. The difference of two times is in `unit`. Null where
    an input is null, where the divisor of a ratio is 0, and where the result exceeds float32 (3.4e38).

    Output: one column, float32, called ``income_per_persons``, ``paid_minus_due``, ``width_times_height`` or
    ``adults_plus_children`` unless ``as`` names it. The inputs remain features.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"income": [3000.0, 4500.0], "persons": [1, 3]})
        >>> ops = [{"arithmetic": {"ratio": ["income", "persons"], "as": "income_per_head"}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           income  persons  income_per_head
        0  3000.0      1.0           3000.0
        1  4500.0      3.0           1500.0
    """

    ratio: str | list[str] | None = _selection("Divide the first of two columns by the second.")
    difference: str | list[str] | None = _selection(
        "Subtract the second of two columns, numbers or times, from the first."
    )
    product: str | list[str] | None = _selection("Multiply two or more columns.")
    sum: str | list[str] | None = _selection("Add two or more columns.")
    unit: TimeUnit | None = Field(None, description="Unit of the difference of two times; default: days.")
    name: str | None = Field(None, alias="as", description="Name of the new column; default: see the op.")

    @model_validator(mode="after")
    def _one_of_four(self) -> Arithmetic:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(
                f"expected exactly one of {', '.join(KINDS)}" + (f"; got {' and '.join(given)}" if given else "")
            )
        if self.unit is not None and self.difference is None:
            raise ValueError(f"unit applies to the difference of two times, not to a {given[0]}")
        return self

    @property
    def _kind(self) -> str:
        """The operation that is set."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    def named_inputs(self) -> tuple[str, ...]:
        """Return the selection of columns that are combined."""
        selection = getattr(self, self._kind)
        return (selection,) if isinstance(selection, str) else tuple(selection)

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the new column."""
        kind = self._kind
        selection = getattr(self, kind)
        op = f"arithmetic: {kind}"
        columns = builder.select_any(selection, op)
        name = self._name(kind, [column.name for column in columns])
        times = [column for column in columns if isinstance(column, TimeExpr)]
        if times and kind == "difference":
            if len(times) != 2:
                other = next(column for column in columns if column not in times)
                raise ConfigError(
                    f"arithmetic: expected two times or two numbers for difference; got {times[0].name!r} (datetime) "
                    f"and {other.name!r} ({other.kind})",
                    fix=f"select other columns, or declare: schema: {{{other.name}: datetime}}",
                    names=[times[0].name, other.name],
                )
            builder.add(_between(name, times[0], times[1], self.unit or "days"))
            return
        if self.unit is not None:
            raise ConfigError(
                f"unit: {self.unit} applies to times; {columns[0].name!r} is {columns[0].kind}",
                fix=f"remove unit, or declare: schema: {{{columns[0].name}: datetime}}",
                names=[columns[0].name],
            )
        builder.add(_made(name, kind, builder.select_numbers(selection, op), builder.statistics))

    def _name(self, kind: str, names: list[str]) -> str:
        """Return the name of the new column.

        Raise ConfigError if the number of columns is wrong, or too large for a default name.
        """
        n = len(names)
        if n < 2 or (n > 2 and kind in ("ratio", "difference")):
            takes = "two columns" if kind in ("ratio", "difference") else "two or more columns"
            raise ConfigError(
                f"arithmetic: {kind} takes {takes}; got {n}: {', '.join(names[:20])}",
                fix="use polynomial for squares" if kind == "product" and n == 1 else "",
            )
        if self.name is None and n > MOST_IN_A_NAME:
            raise ConfigError(f"arithmetic: the {kind} of {n} columns needs a name", fix="set as: NAME")
        return self.name or f"_{KINDS[kind][1]}_".join(names)


def _between(name: str, left: TimeExpr, right: TimeExpr, unit: TimeUnit) -> NumericExpr:
    start = Producer("BETWEEN", left.source, other=right.source, params=(1.0 / TIME_UNITS_US[unit],))
    return NumericExpr(name, (*left.inputs, *right.inputs), start, root=name)


def _made(name: str, kind: str, columns: list[NumericExpr], statistics: Statistics) -> NumericExpr:
    if kind == "difference":
        columns = center_jointly(columns, statistics)
    made = columns[0]
    for column in columns[1:]:
        made = combine(name, KINDS[kind][0], (made, column))
    return made


def center_jointly(columns: list[NumericExpr], statistics: Statistics) -> list[NumericExpr]:
    """Return two columns minus a common origin, if 90 % of their values are closer to the origin than to 0.

    Their difference then keeps digits that float32 would lose: it resolves seconds since 1970 to about 2 minutes only.
    """
    places = statistics.table.places
    if not all(column.producer.op == "LOAD" and places[column.producer.source][0] == "float64" for column in columns):
        return columns
    bounds = list(chain.from_iterable(statistics.quantiles(columns, BULK)))
    low, high = min(bounds), max(bounds)
    if low * high <= 0 or (high - low) / 2 > min(abs(low), abs(high)):
        return columns
    return [column.then("CENTER", (low + high) / 2, 1.0) for column in columns]  # subtracted in float64
