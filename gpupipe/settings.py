"""Base class and field types of configuration sections."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gpupipe.units import parse_duration_us, parse_size, parse_time_us


class Settings(BaseModel):
    """A typed, immutable section of the configuration; an unknown key is an error."""

    # Built on first use: a configuration names few of the many ops and models, and `check` must start fast.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)


class NumberTextSettings(Settings):
    """Notation of the numbers in a text column: see the op ``parse_number``."""

    units: str | list[str] | dict[str, float] | None = Field(
        None, description="Unit of the texts; or several, or the factor of each: {kg: 1, g: 0.001}, {$: 1, k: 1000}."
    )
    decimal: Literal[".", ","] | None = Field(None, description='Decimal mark of the texts; default: ".".')
    bands: Literal["missing", "limit"] | None = Field(
        None,
        description="Number of a band such as <5, 65+ or 10-20: none (missing, the default), or its limit (of a "
        "range the middle).",
    )
    duration: Literal["ms", "s", "min", "h", "d", "w", "month", "year"] | None = Field(
        None, description="Read durations, such as 3 weeks, 1 year 2 months, 00:12:30 or PT5M, as numbers of this unit."
    )

    @field_validator("units")
    @classmethod
    def _check_units(cls, value: str | list[str] | dict[str, float] | None) -> Any:
        names = [value] if isinstance(value, str) else value or []
        named = names if isinstance(names, dict) else dict.fromkeys(names, 1.0)
        for name, factor in named.items() if value else ():
            if name != name.strip() or not name or not math.isfinite(factor) or factor == 0:
                raise ValueError(f"expected units, and factors that are not 0; got {name!r}: {factor:g}")
        return value

    @model_validator(mode="after")
    def _check_duration(self) -> Self:
        if self.duration and self.units:
            raise ValueError("a duration names its units: remove units")
        return self


class OneOrMore:
    """Annotation of a tuple that may be written as its only item: ``columns: age`` for ``columns: [age]``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float) else value


Names = Annotated[tuple[str, ...], OneOrMore()]
"""One name, or a list of them."""

Label = bool | int | float | str
"""Column value, as written in YAML."""


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    return parse_duration_us(value) / 1e6 if isinstance(value, str) else value


def _checked(parse: Callable[[str], int]) -> AfterValidator:
    """Return a validator that keeps the text unchanged if `parse` accepts it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _zero_as_text(value: Any) -> Any:
    return "0" if value == 0 and not isinstance(value, bool) else value


def _time_as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value


Size = Annotated[
    int, BeforeValidator(_size, json_schema_input_type=int | str), Field(gt=0, json_schema_extra={"x-unit": "bytes"})
]
"""Size in bytes: an integer, or text such as ``16GiB``."""

Seconds = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(_seconds, json_schema_input_type=float | str),
    Field(json_schema_extra={"x-unit": "seconds"}),
]
"""Seconds: a number, or text such as ``2h``."""

Duration = Annotated[str, _checked(parse_duration_us), Field(json_schema_extra={"x-unit": "duration"})]
"""Duration such as ``30d``, kept as text."""

DurationOrZero = Annotated[
    str,
    BeforeValidator(_zero_as_text, json_schema_input_type=str | Literal[0]),
    _checked(partial(parse_duration_us, allow_zero=True)),
    Field(json_schema_extra={"x-unit": "duration"}),
]
"""Duration that may be 0, kept as text."""

TimeText = Annotated[str, BeforeValidator(_time_as_text)]
"""ISO text; YAML parses ``2011-09-10`` as a date, which is converted back to text."""

IsoTime = Annotated[TimeText, _checked(parse_time_us), Field(json_schema_extra={"x-unit": "time"})]
"""ISO date or time, kept as text."""
