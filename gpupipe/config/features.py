"""The ``features:`` section: a list of ops, each ``{name: settings}``, in the order of the columns that come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from gpupipe.config.parts import find_part, json_schema_of, located, read_settings
from gpupipe.features import OPS, Op

DEFAULT_OP = "auto"


def default_features() -> tuple[Op, ...]:
    """Return what stands for an omitted section: one op that does what suits each column."""
    return (OPS.get(DEFAULT_OP).model_validate({"columns": "@all"}),)


def read_op(item: Any) -> Op:
    """Return the op that ``{name: settings}`` describes."""
    if isinstance(item, Op):
        return item
    if not isinstance(item, Mapping) or len(item) != 1:
        keys = f"; got {len(item)} keys: {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
        raise PydanticCustomError("op_form", "expected one op, such as `- standardize: [age]`{keys}", {"keys": keys})
    ((name, settings),) = item.items()
    try:
        op = find_part(OPS, name)
    except PydanticCustomError as error:
        raise located("features", [InitErrorDetails(type=error, loc=(name,), input=settings)]) from None
    return read_settings(op, settings, at=(name,))


def write_op(op: Op) -> dict[str, Any]:
    """Return ``{name: settings}`` with every default filled in."""
    name = next(name for name, part in OPS.items() if part is type(op))
    return {name: op.model_dump(mode="json", by_alias=True)}


class _OpForms:
    """Tells pydantic how an op is read and written, and which forms an editor may offer."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            read_op, serialization=core_schema.plain_serializer_function_ser_schema(write_op)
        )

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        columns = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
        return {
            "title": "Feature op",
            "type": "object",
            "properties": {
                name: {"anyOf": [json_schema_of(op, handler), columns], "description": _summary(op)}
                for name, op in OPS.items()
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }


def _summary(op: type[Op]) -> str:
    return (op.__doc__ or "").strip().split("\n\n")[0]


OpItem = Annotated[Op, _OpForms()]
