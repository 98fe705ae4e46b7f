"""Hashing of levels to buckets."""

from __future__ import annotations

from pydantic import Field

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr


@OPS.register("hash_bucket")
class HashBucket(InPlaceOp[CategoryExpr]):
    """Hash each level to one of `buckets` ids, without a vocabulary.

    Id 0 is null, and the buckets are the ids from 3. Levels that are not in the training rows are hashed like all
    others. The hash is the same on every device and in every process.

    Output: the column becomes categorical with `buckets` levels, for a later one_hot, target_encode or
    frequency_encode. If no later op encodes it, its column in the matrix is the id, float32. Replaces each selected
    column, or adds one with ``as``.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"city": ["Rome", "Oslo", None, "Rome"]})
        >>> ops = [{"hash_bucket": {"columns": "city", "buckets": 8}}]
        >>> program = FeatureProgram(ops).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           city
        0   9.0
        1   8.0
        2   0.0
        3   9.0
    """

    buckets: int = Field(1024, ge=2, le=2**20, description="Number of buckets.")

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        columns = builder.select_categories(self.columns, "hash_bucket")
        for column in columns:
            builder.source_of(column, "hash_bucket", "hash each input column once; for a cross, set its buckets")
        return list(columns)

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        codes = builder.hashed(column, self.buckets)
        builder.change(codes)
        ids = [float(i) for i in range(codes.n_codes)]
        builder.put_default(codes, ids, "hash_bucket", codes.n_codes)
