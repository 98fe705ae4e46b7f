"""Settings of event tables: rows per group, and the rows and labels of the main table that are made of events.

Like `gpupipe.io.settings`, this imports none of the libraries that read.
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
        raise ValueError("give a date, or several")
    if len({parse_time_us(date) for date in dates}) < len(dates):
        raise ValueError("a cut-off is listed twice")
    return tuple(sorted(dates, key=parse_time_us))


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


Dates = Annotated[tuple[IsoTime, ...], BeforeValidator(_listed), AfterValidator(_in_order), OneOrMore()]


class GroupBy(Settings):
    """``group_by:`` of a table: one row for each combination of keys, such as one order for each invoice."""

    keys: Names = Field(min_length=1, description="Columns whose values make a group; they stay columns.")
    columns: dict[str, Aggregations] = Field(
        min_length=1,
        description="Column to function: {InvoiceDate: min, spend: sum}. With a list of functions the new columns are "
        'called spend_sum, spend_max; "*": count counts rows in a column `count`.',
    )

    @model_validator(mode="after")
    def _makes_distinct_columns(self) -> GroupBy:
        if empty := [column for column, functions in self.columns.items() if not functions]:
            raise ValueError(f"no function of {empty[0]!r} is named")
        if any(function != "count" for function in self.columns.get(ROWS, ())):
            raise ValueError('"*" stands for rows, which can be counted only: "*": count')
        names = [*self.keys, *self.made()]
        if twice := duplicates(names):
            raise ValueError(f"two columns would be called {enumerate_names(twice)}")
        return self

    def made(self) -> dict[str, tuple[str, Aggregation]]:
        """Return the new columns: name to source column and function."""
        found = {}
        for column, functions in self.columns.items():
            for function in functions:
                name = "count" if column == ROWS else column if len(functions) == 1 else f"{column}_{function}"
                found[name] = column, function
        return found

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns that are read."""
        return (*self.keys, *(column for column in self.columns if column != ROWS))


LabelFunction = Literal["none", "any", "count", "sum", "mean", "min", "max"]


class EventLabel(Settings):
    """``label:`` of a row, made of the events of its key from its cut-off on: ``{none: orders, within: 91d}``."""

    none: str | None = Field(None, description="A table: true where the key has no event in the window (churn).")
    any: str | None = Field(None, description="A table: true where the key has an event in the window.")
    count: str | None = Field(None, description="A table: the number of events in the window.")
    sum: str | None = Field(None, description="TABLE.COLUMN: its sum over the window, 0 without events.")
    mean: str | None = Field(None, description="TABLE.COLUMN: its mean over the window, null without events.")
    min: str | None = Field(None, description="TABLE.COLUMN: its minimum over the window, null without events.")
    max: str | None = Field(None, description="TABLE.COLUMN: its maximum over the window, null without events.")
    within: Duration = Field(
        description="The prediction window: events from the cut-off (included) up to this long after it (excluded)."
    )
    at_least: float | None = Field(
        None, description="Makes a number a yes or no: true where count, sum, mean, min or max reaches it."
    )

    @model_validator(mode="after")
    def _has_one_function(self) -> EventLabel:
        given = [name for name in LABEL_FUNCTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(LABEL_FUNCTIONS)}, as in none: orders")
        if self.at_least is not None and self.function in ("none", "any"):
            raise ValueError(f"at_least is for numbers; {self.function} is true or false already")
        return self

    @property
    def function(self) -> LabelFunction:
        """The function of the events in the window."""
        return next(name for name in LABEL_FUNCTIONS if getattr(self, name) is not None)

    @property
    def needs_column(self) -> bool:
        """True if the function takes a column, not rows."""
        return self.function in ("sum", "mean", "min", "max")

    @property
    def table(self) -> str:
        """The event table."""
        named = str(getattr(self, self.function))
        return named.partition(".")[0] if self.needs_column else named

    @property
    def column(self) -> str | None:
        """The column of the event table, None where rows are counted."""
        return str(getattr(self, self.function)).partition(".")[2] if self.needs_column else None


LABEL_FUNCTIONS: tuple[LabelFunction, ...] = ("none", "any", "count", "sum", "mean", "min", "max")


class Entities(Settings):
    """``entities:`` of the source: the main table is made of events, one row for each key and cut-off.

    A key has a row if it has an event before the cut-off. Features see events before the cut-off, labels see events
    from it on.
    """

    table: str = Field(description="The one_to_many table of `tables:` whose keys are the rows.")
    as_of: Dates = Field(
        description="The cut-off: a date, or several, which give a key one row each. The column `as_of` holds it."
    )
    active_within: Duration | None = Field(
        None, description="Keep only keys with an event at most this long before the cut-off; default: any before it."
    )
    label: EventLabel | None = Field(None, description="How the target is made of later events.")
    until: IsoTime | None = Field(
        None,
        description="When the events end, exclusively, if known; default: the end of the last event's day, or the last "
        "event where the window of the label is not of whole days. Windows that end later are an error.",
    )
