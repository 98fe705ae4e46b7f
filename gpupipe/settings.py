"""The base of everything that is written in a configuration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema


class Settings(BaseModel):
    """A typed, immutable section of the configuration; an unknown key is an error."""

    # Built when first validated: of the many ops and models a configuration uses a few, and `check` must start fast.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Names = Annotated[tuple[str, ...], BeforeValidator(_listed), WithJsonSchema(NAMES_SCHEMA)]
"""One name, or a list of them."""
