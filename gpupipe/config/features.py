"""The ``features:`` section: a list of ops, each ``{name: settings}``, in the order of their output columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.config.registered_parts import combine_errors, find_part, read_settings
from gpupipe.features import OPS, FeatureOp

DEFAULT_OP = "auto"


def default_features() -> tuple[FeatureOp, ...]:
    """Return the ops of an omitted section: ``auto`` for all columns."""
    return (OPS.get(DEFAULT_OP).model_validate({"columns": "@all"}),)


def read_op(item: Any) -> FeatureOp:
    """Return the op for ``{name: settings}``, or for the bare name of an op that requires no settings."""
    if isinstance(item, FeatureOp):
        return item
    if isinstance(item, str) and item.isidentifier() and not requires_settings(find_part(OPS, item)):
        item = {item: {}}
    if not isinstance(item, Mapping) or len(item) != 1:
        keys = f"; got {len(item)} keys: {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
        raise PydanticCustomError("op_form", "expected one op, such as `- standardize: [age]`{keys}", {"keys": keys})
    ((name, settings),) = item.items()
    try:
        op = find_part(OPS, name)
    except PydanticCustomError as error:
        raise combine_errors("features", [InitErrorDetails(type=error, loc=(name,), input=settings)]) from None
    return read_settings(op, settings, at=(name,))


def requires_settings(op: type[FeatureOp]) -> bool:
    """Return whether an op has a setting without default."""
    return any(field.is_required() for field in op.model_fields.values())


def write_op(op: FeatureOp) -> dict[str, Any]:
    """Return ``{name: settings}`` with every default filled in."""
    return {op_name(op): op.model_dump(mode="json", by_alias=True)}


def op_name(op: FeatureOp) -> str:
    """Return the name of an op in a configuration."""
    return OPS.name_of(type(op))


# `gpupipe.config.schema` replaces the bare object with the forms of every op.
OpItem = Annotated[FeatureOp, PlainValidator(read_op), PlainSerializer(write_op), WithJsonSchema({"type": "object"})]
