"""The base of everything that is written in a configuration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Settings(BaseModel):
    """A typed, immutable section of the configuration; an unknown key is an error."""

    # Built when first validated: of the many ops and models a configuration uses a few, and `check` must start fast.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)


class OneOrMore:
    """Marks a tuple of which one item may stand for itself: ``columns: age`` for ``columns: [age]``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float) else value


Names = Annotated[tuple[str, ...], OneOrMore()]
"""One name, or a list of them."""
