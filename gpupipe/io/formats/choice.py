"""The setting ``format`` of a table: a format of gpupipe or of a plug-in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gpupipe.errors import ConfigError
from gpupipe.io.formats.registry import READERS, RESERVED


class _OrPlugin:
    """Annotation of the formats of gpupipe that also takes those of plug-ins."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(_format, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {**schema, "enum": list(dict.fromkeys([*schema["enum"], *READERS.known_names()]))}


def _format(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str) or value in RESERVED or value not in READERS:
        return known(value)
    try:
        READERS.get(value)
    except ConfigError as error:
        raise PydanticCustomError("plugin", "{what}; {fix}", {"what": error.what, "fix": error.fix}) from None
    return value


Format = Annotated[Literal["auto", "csv", "parquet", "jsonl", "orc", "arrow"], _OrPlugin()]
