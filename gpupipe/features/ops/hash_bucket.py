"""Hashing of levels to buckets."""

from __future__ import annotations

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.table.schema import NULL, Column


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
        schema = builder.statistics.table.schema
        for column in columns:
            step = column.index[0]
            is_read = len(column.index) == 1 and step.op == "INDEX" and schema[step.source].hash_of is None
            if not is_read or column.kind != "categorical":
                raise ConfigError(
                    f"hash_bucket takes input columns; {column.name!r} is made by another op",
                    fix="hash each input column once; for a cross, set its buckets",
                    names=[column.name],
                )
        return list(columns)

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        source = builder.add_hashed(column.index[0].source, self.buckets)
        hashed = builder.statistics.table.schema[source]
        labels = tuple(str(i) for i in range(self.buckets))
        index = (IndexTerm("INDEX", source),)
        codes = CategoryExpr(column.name, column.inputs, index, 3 + self.buckets, labels, root=column.root)
        if column.remap is not None:  # imputed nulls have the bucket of their level
            codes = codes.with_null_as(_bucket(hashed, column.labels[column.remap[NULL] - 3]))
        builder.change(codes)
        ids = [float(i) for i in range(codes.n_codes)]
        builder.put_default(codes, ids, "hash_bucket", codes.n_codes)


def _bucket(hashed: Column, level: str) -> int:
    from gpupipe.table.hash_buckets import hash_levels

    return int(hash_levels(hashed, (level,))[0])
