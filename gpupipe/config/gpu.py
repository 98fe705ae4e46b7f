"""The ``gpu:`` section: the memory of the device."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from gpupipe.settings import Settings, Size


class GpuSettings(Settings):
    """The allocator of the device's memory, shared by CuPy, cuDF, cuML and, with ``async``, XGBoost."""

    allocator: Literal["async", "pool", "managed", "cuda"] = Field(
        default="async",
        description="async: the driver's default pool, shared with XGBoost. pool: RMM's. managed: a pool that the "
        "driver moves to the host and back. cuda: no pool.",
    )
    initial_pool: Size | None = Field(default=None, description="What a pool begins with, as in 8GiB.")
    limit: Size | None = Field(default=None, description="The most that may be allocated at once; default: all of it.")
    spill: bool = Field(default=False, description="Let cuDF move to the host what it does not use.")

    @field_validator("limit")
    @classmethod
    def _is_no_less_than_the_pool_begins_with(cls, limit: int | None, info: ValidationInfo) -> int | None:
        initial = info.data.get("initial_pool")
        if limit is not None and initial is not None and limit < initial:
            raise ValueError(f"initial_pool is {initial:,} bytes already, more than the limit of {limit:,}")
        return limit
