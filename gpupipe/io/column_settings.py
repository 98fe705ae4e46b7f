"""Settings of a column in the ``schema:`` of a table."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gpupipe.errors import SchemaError
from gpupipe.settings import NumberTextSettings
from gpupipe.table.number_texts import NumberFormat
from gpupipe.table.schema import DeclaredColumn, declare
from gpupipe.table.time_texts import is_pattern, pattern_of
from gpupipe.units import TICKS_PER_SECOND


class ColumnSettings(NumberTextSettings):
    """Declared type of a column: ``float``, ``{kind: datetime, format: "%d.%m.%Y"}``, ``{kind: number, units: kg}``."""

    kind: str = Field(
        description="A kind (numeric, categorical, datetime, boolean, text, list) or a dtype such as int or "
        "float32. Texts of a list column are JSON arrays."
    )
    format: str | None = Field(
        None,
        description="Format of a datetime column: a strptime pattern for text and for integers such as 20240131, or "
        "the unit s, ms, us or ns for numbers counted from 1970-01-01 UTC. Default: ISO 8601, or the only format that "
        "all texts have.",
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        try:
            declare(kind)
        except SchemaError as error:
            raise ValueError(f"{error.what}: {error.fix}") from None
        return kind

    @field_validator("format")
    @classmethod
    def _is_format(cls, time_format: str | None) -> str | None:
        if is_pattern(time_format) and (unknown := pattern_of(time_format or "").unknown):
            raise ValueError(
                f"expected a strptime pattern such as '%d.%m.%Y', or one of {', '.join(TICKS_PER_SECOND)}; "
                f"{time_format!r} has {'the unknown directive ' * ('%' in unknown)}{unknown}"
            )
        return time_format

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(core)]}

    def declared(self) -> DeclaredColumn:
        """Return the declaration in the form that the table encoder takes."""
        return declare(self.kind, self.format, self.number_format)

    @property
    def number_format(self) -> str | None:
        """The notation of numbers in texts, in the form that a schema stores; None if no setting states it."""
        if (self.units, self.decimal, self.bands, self.duration) == (None, None, None, None):
            return None
        return NumberFormat.of(self.units, self.decimal, self.bands, self.duration).to_json()

    @model_validator(mode="after")
    def _formats_numbers(self) -> Self:
        if self.number_format is not None and declare(self.kind).kind != "numeric":
            raise ValueError(f"units, decimal, bands and duration are for kind: number; got kind: {self.kind}")
        return self
