"""Settings of event tables: ``group_by:``, ``label:`` and ``entities:``.

Like `gpupipe.io.settings`, this module imports no reader library.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpupipe.names import duplicates, enumerate_names
from gpupipe.settings import Duration, IsoTime, Names, OneOrMore, Settings
from gpupipe.units import parse_time_us

AS_OF = "as_of"
"""The column of the main table that holds the cut-off of each row."""

Aggregation = Literal["sum", "mean", "min", "max", "first", "last", "count", "nunique"]
Aggregations = Annotated[tuple[Aggregation, ...], OneOrMore()]
ROWS = "*"


def _in_order(dates: tuple[str, ...]) -> tuple[str, ...]:
    if not dates:
        raise ValueError("expected at least one date")
    if len({parse_time_us(date) for date in dates}) < len(dates):
        raise ValueError("a cut-off is listed twice")
    return tuple(sorted(dates, key=parse_time_us))


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


Dates = Annotated[tuple[IsoTime, ...], BeforeValidator(_listed), AfterValidator(_in_order), OneOrMore()]


class GroupBy(Settings):
    """``group_by:`` of a table: aggregate to one row per combination of keys, such as one order per invoice."""

    keys: Names = Field(min_length=1, description="Columns to group by; they stay columns of the result.")
    columns: dict[str, Aggregations] = Field(
        min_length=1,
        description="Aggregation functions by column: {InvoiceDate: min, spend: sum}. With a list of functions, the "
        'result columns are named spend_sum, spend_max. "*": count adds the column `count`, the number of rows.',
    )

    @model_validator(mode="after")
    def _makes_distinct_columns(self) -> GroupBy:
        if empty := [column for column, functions in self.columns.items() if not functions]:
            raise ValueError(f"column {empty[0]!r} has no aggregation function")
        if any(function != "count" for function in self.columns.get(ROWS, ())):
            raise ValueError('"*" (rows) supports only count: "*": count')
        names = [*self.keys, *self.made()]
        if twice := duplicates(names):
            raise ValueError(f"two result columns have the same name: {enumerate_names(twice)}")
        return self

    def made(self) -> dict[str, tuple[str, Aggregation]]:
        """Return the result columns: source column and function by name."""
        found = {}
        for column, functions in self.columns.items():
            for function in functions:
                name = "count" if column == ROWS else column if len(functions) == 1 else f"{column}_{function}"
                found[name] = column, function
        return found

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns that the step reads."""
        return (*self.keys, *(column for column in self.columns if column != ROWS))


LabelFunction = Literal["none", "any", "count", "sum", "mean", "min", "max"]


class EventLabel(Settings):
    """``label:`` of a row, computed from the events of its key after its cut-off: ``{none: orders, within: 91d}``."""

    none: str | None = Field(
        None, description="Event table; the label is true if the key has no event in the window (churn)."
    )
    any: str | None = Field(None, description="Event table; the label is true if the key has an event in the window.")
    count: str | None = Field(None, description="Event table; the label is the number of events in the window.")
    sum: str | None = Field(None, description="TABLE.COLUMN; the label is its sum over the window, 0 without events.")
    mean: str | None = Field(
        None, description="TABLE.COLUMN; the label is its mean over the window, null without events."
    )
    min: str | None = Field(
        None, description="TABLE.COLUMN; the label is its minimum over the window, null without events."
    )
    max: str | None = Field(
        None, description="TABLE.COLUMN; the label is its maximum over the window, null without events."
    )
    within: Duration = Field(
        description="Length of the prediction window, which starts at the cut-off (inclusive; the end is exclusive)."
    )
    at_least: float | None = Field(
        None,
        description="Threshold for a binary label: true if the count, sum, mean, min or max is at least this value.",
    )

    @model_validator(mode="after")
    def _has_one_function(self) -> EventLabel:
        given = [name for name in LABEL_FUNCTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(LABEL_FUNCTIONS)}, as in none: orders; got {len(given)}")
        if self.at_least is not None and self.function in ("none", "any"):
            raise ValueError(f"at_least applies to numeric labels; {self.function} is already true or false")
        return self

    @property
    def function(self) -> LabelFunction:
        """The function over the events in the window."""
        return next(name for name in LABEL_FUNCTIONS if getattr(self, name) is not None)

    @property
    def needs_column(self) -> bool:
        """True if the function takes a column instead of rows."""
        return self.function in ("sum", "mean", "min", "max")

    @property
    def table(self) -> str:
        """The event table."""
        named = str(getattr(self, self.function))
        return named.partition(".")[0] if self.needs_column else named

    @property
    def column(self) -> str | None:
        """The column of the event table; None if the function takes rows."""
        return str(getattr(self, self.function)).partition(".")[2] if self.needs_column else None


LABEL_FUNCTIONS: tuple[LabelFunction, ...] = ("none", "any", "count", "sum", "mean", "min", "max")


class Entities(Settings):
    """``entities:`` of the source: build the main table from events, one row per key and cut-off.

    A key has a row if it has an event before the cut-off. Features use events before the cut-off; labels use events
    from the cut-off on.
    """

    table: str = Field(description="The one_to_many table of `tables:` whose keys become the rows.")
    as_of: Dates = Field(
        description="Cut-off date or dates; each gives a key one row. The column `as_of` holds the cut-off of a row."
    )
    active_within: Duration | None = Field(
        None,
        description="Keep only keys with an event within this time before the cut-off. Default: any event before it.",
    )
    label: EventLabel | None = Field(
        None, description="How the target is computed from events after the cut-off. Default: the rows have no label."
    )
    until: IsoTime | None = Field(
        None,
        description="Exclusive end of the period for which the events are complete. Default: the end of the last "
        "event's day, or the last event itself if `within` is not a whole number of days. A label window that ends "
        "later is an error.",
    )
