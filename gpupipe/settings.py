"""The base of everything that is written in a configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A typed, immutable section of the configuration; an unknown key is an error."""

    # Built when first validated: of the many ops and models a configuration uses a few, and `check` must start fast.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)
