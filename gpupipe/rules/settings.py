"""Settings of the ``data:`` section, the data rules. Imports no compute library, so ``gpupipe check`` starts fast."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.rules.regex import require_valid
from gpupipe.settings import Label, Settings
from gpupipe.table.schema import TEXT_KINDS, Kind, declare
from gpupipe.units import parse_time_us

Bound = Annotated[float, Field(allow_inf_nan=False)] | str | None

ORDER = ("dtype", "nulls", "range", "set", "regex", "unique")  # order of checks and of messages
# Column kinds to which a rule applies; the other rules apply to all kinds.
ABLE: dict[str, tuple[Kind, ...]] = {"regex": TEXT_KINDS, "set": ("numeric", "boolean", *TEXT_KINDS)}


class ColumnRules(Settings):
    """Rules for the values of a column, all of which must hold. Only ``nulls: false`` is violated by a null."""

    dtype: str | None = Field(
        None,
        description="Required kind or dtype, as in source.schema. categorical, string and text all mean text. An "
        "integer dtype such as int or uint8 requires whole numbers within its bounds. Default: any.",
    )
    nulls: bool = Field(
        True, description="Allow missing values. Numbers above 4e37 in absolute value count as missing."
    )
    range: tuple[Bound, Bound] | None = Field(
        None,
        description="Inclusive bounds [low, high], as numbers or ISO dates; null for no bound. Default: any value.",
    )
    set: tuple[Label, ...] | None = Field(None, min_length=1, description="Allowed values. Default: any value.")
    regex: str | None = Field(
        None, description="Regular expression (RE2 syntax) that must match each whole string. Default: any string."
    )
    unique: bool = Field(False, description="Require that no value except null occurs twice.")
    otherwise: Literal["refuse", "warn"] = Field(
        "refuse",
        description="Action if the table violates a rule: refuse stops with exit code 5, warn logs it and continues.",
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
            raise ValueError("expected [low, high], with null for no bound")
        return given

    @field_validator("range")
    @classmethod
    def _is_possible(cls, bounds: tuple[Bound, Bound] | None) -> tuple[Bound, Bound] | None:
        known = [bound for bound in bounds or () if bound is not None]
        if bounds is not None and not known:
            raise ValueError("at least one bound must not be null")
        if len({isinstance(bound, str) for bound in known}) == 2:
            raise ValueError("both bounds must be numbers, or both dates")
        if len(places := [to_micros(b) if isinstance(b, str) else b for b in known]) == 2 and places[0] > places[1]:
            raise ValueError(f"the range is empty: low is {known[0]}, high is {known[1]}")
        return bounds

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        if regex is not None:
            require_valid(regex)
        return regex

    @model_validator(mode="after")
    def _rules_agree(self) -> ColumnRules:
        if not self.names:
            raise ValueError("expected at least one rule: dtype, nulls: false, range, set, regex or unique: true")
        kind, by = self.kind, "dtype" if self.dtype else "range"
        if kind and self.dtype and self.range is not None and kind != self.range_kind:
            bounds = "dates" if self.range_kind != "numeric" else "numbers"
            raise ValueError(f"a range of {bounds} does not apply to dtype {self.dtype}")
        for rule, kinds in ABLE.items():
            if kind and getattr(self, rule) is not None and kind not in kinds:
                raise ValueError(f"{rule} applies to {' or '.join(kinds)} columns; by its {by}, this one is {kind}")
        return self

    @property
    def names(self) -> list[str]:
        """Names of the given rules, in the order of the checks."""
        is_given = {"dtype": self.kind is not None, "nulls": not self.nulls}
        return [name for name in ORDER if is_given.get(name, getattr(self, name) not in (None, False))]

    @property
    def kind(self) -> Kind | None:
        """The required kind of the column: from `dtype`, else from `range`."""
        return declare(self.dtype).kind if self.dtype else self.range_kind

    def is_for(self, kind: Kind) -> bool:
        """Return whether the rules are about columns of `kind`; categorical and text are the same here."""
        return self.kind in (None, kind) or (self.kind in TEXT_KINDS and kind in TEXT_KINDS)

    def checks_of(self, column: str, kind: Kind) -> list[str]:
        """Return the names of the rules to check on a column of `kind`; those about values only if they are for it.

        Raise ConfigError if a rule does not apply to columns of that kind.
        """
        if not self.is_for(kind):
            return [rule for rule in self.names if rule in ("nulls", "unique")]
        for rule in self.names:
            if kind not in ABLE.get(rule, (kind,)):
                raise ConfigError(
                    f"{rule} does not apply to column {column!r}, which is {kind}",
                    where=f"data.{column}.{rule}",
                    fix=f"declare the column as one of {', '.join(ABLE[rule])} in source.schema, or use another rule",
                    names=[column],
                )
        return self.names

    @property
    def range_kind(self) -> Kind | None:
        """Numeric or datetime, from the types of the bounds."""
        if self.range is None:
            return None
        return "datetime" if any(isinstance(bound, str) for bound in self.range) else "numeric"

    def text(self, rule: str) -> str:
        """Return a rule in YAML: ``range: [0, 100]``."""
        if rule == "dtype":
            return f"dtype: {self.dtype or self.kind}"
        value = getattr(self, rule)
        if isinstance(value, tuple):
            shown = ", ".join(map(_word, value[:8])) + (f", and {len(value) - 8} more" if len(value) > 8 else "")
            return f"{rule}: [{shown}]"
        return f"{rule}: {_word(value)}"


def to_micros(date: str) -> int:
    """Return an ISO date or time, in UTC unless it has a zone, as microseconds since 1970-01-01.

    Raise ValueError if the text is not an ISO date.
    """
    try:
        return parse_time_us(date)
    except ValueError:
        raise ValueError(
            f"expected a number or an ISO date such as 2024-12-31 or 2024-12-31T23:59:59; got {date!r}"
        ) from None


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.15g}" if isinstance(value, float) else str(value)
