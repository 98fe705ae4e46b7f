"""The ``data:`` section: what columns must hold. Imports nothing that computes: ``gpupipe check`` starts fast."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gpupipe.errors import SchemaError
from gpupipe.settings import Label, Settings
from gpupipe.table.schema import TEXT_KINDS, Kind, declare
from gpupipe.units import parse_time_us

Bound = Annotated[float, Field(allow_inf_nan=False)] | str | None

ORDER = ("dtype", "nulls", "range", "set", "regex", "unique")  # in which rules are judged and shown
# rule → the kinds of columns that it can judge
ABLE: dict[str, tuple[Kind, ...]] = {"regex": TEXT_KINDS, "set": ("numeric", "boolean", *TEXT_KINDS)}


class ColumnRules(Settings):
    """What the values of a column must be; all rules that are given hold. A null is only against ``nulls: false``."""

    dtype: str | None = Field(
        None,
        description="A kind or dtype, as in source.schema; categorical, string and text all mean text, and one of "
        "whole numbers (int, uint8...) that they are whole and within its bounds.",
    )
    nulls: bool = Field(True, description="Whether a value may be missing; a number beyond 4e37 is one that is.")
    range: tuple[Bound, Bound] | None = Field(
        None, description="[low, high], both included: numbers, or ISO dates; null for no bound."
    )
    set: tuple[Label, ...] | None = Field(None, min_length=1, description="The values that there may be.")
    regex: str | None = Field(None, description="A regular expression (RE2) that each text matches from end to end.")
    unique: bool = Field(False, description="Whether no value may be there twice; nulls may.")
    otherwise: Literal["refuse", "warn"] = Field(
        "refuse", description="What is done with a table that is against the rules: exit code 5, or a remark."
    )

    @field_validator("dtype")
    @classmethod
    def _is_known(cls, dtype: str | None) -> str | None:
        try:
            declare(dtype or "numeric")
        except SchemaError as error:
            raise ValueError(f"{error.what}: {error.fix}") from None
        return dtype

    @field_validator("range", mode="before")
    @classmethod
    def _is_a_pair(cls, given: Any) -> Any:
        if given is not None and not (isinstance(given, list | tuple) and len(given) == 2):
            raise ValueError("write it as [low, high], with null for no bound")
        return given

    @field_validator("range")
    @classmethod
    def _is_possible(cls, bounds: tuple[Bound, Bound] | None) -> tuple[Bound, Bound] | None:
        known = [bound for bound in bounds or () if bound is not None]
        if bounds is not None and not known:
            raise ValueError("both bounds are null: that is no rule")
        if len({isinstance(bound, str) for bound in known}) == 2:
            raise ValueError("one bound is a number, the other a date")
        if len(places := [to_micros(b) if isinstance(b, str) else b for b in known]) == 2 and places[0] > places[1]:
            raise ValueError(f"nothing is at least {known[0]} and at most {known[1]}")
        return bounds

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        if regex is not None:
            import pyarrow as pa
            import pyarrow.compute as pc

            try:
                pc.match_substring_regex(pa.array([""]), regex)
            except pa.ArrowInvalid as error:
                # A message of pyarrow 26.0, which begins with its own word for the error.
                raise ValueError(f"no regular expression of RE2: {str(error).partition(': ')[2] or error}") from None
        return regex

    @model_validator(mode="after")
    def _can_be_judged(self) -> ColumnRules:
        if not self.names:
            raise ValueError("it has no rule; give dtype, nulls: false, range, set, regex or unique: true")
        kind, by = self.kind, "dtype" if self.dtype else "range"
        if kind and self.dtype and self.range is not None and kind != self.range_kind:
            raise ValueError(
                f"dtype {self.dtype} has no range of {'dates' if self.range_kind != 'numeric' else 'numbers'}"
            )
        for rule, kinds in ABLE.items():
            if kind and getattr(self, rule) is not None and kind not in kinds:
                raise ValueError(f"{rule} is of {' or '.join(kinds)} columns; by its {by} this one is {kind}")
        return self

    @property
    def names(self) -> list[str]:
        """The rules that are given, in the order in which they are judged."""
        is_given = {"dtype": self.kind is not None, "nulls": not self.nulls}
        return [name for name in ORDER if is_given.get(name, getattr(self, name) not in (None, False))]

    @property
    def kind(self) -> Kind | None:
        """The kind that the column must be of: by its dtype, else by its range."""
        return declare(self.dtype).kind if self.dtype else self.range_kind

    @property
    def range_kind(self) -> Kind | None:
        """Numeric or datetime, by what the bounds are."""
        if self.range is None:
            return None
        return "datetime" if any(isinstance(bound, str) for bound in self.range) else "numeric"

    def text(self, rule: str) -> str:
        """Return a rule as it would be written: ``range: [0, 100]``."""
        if rule == "dtype":
            return f"dtype: {self.dtype or self.kind}"
        value = getattr(self, rule)
        if isinstance(value, tuple):
            shown = ", ".join(map(_word, value[:8])) + (f", and {len(value) - 8} more" if len(value) > 8 else "")
            return f"{rule}: [{shown}]"
        return f"{rule}: {_word(value)}"


def to_micros(date: str) -> int:
    """Return an ISO date or time, in UTC unless it says otherwise, as microseconds since 1970-01-01.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        return parse_time_us(date)
    except ValueError:
        raise ValueError(f"{date!r} is neither a number nor an ISO date (2024-12-31, 2024-12-31T23:59:59)") from None


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.15g}" if isinstance(value, float) else str(value)
