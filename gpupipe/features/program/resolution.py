"""Columns whose distinct values merge in float32, the type of the matrix.

A program loads a float64 column as ``float32(x - center)``, subtracted in float64. Ops that scale have their own
center. Other columns get one if their values merge without it and fewer do with it: the median, which is exact and does
not depend on the order of the rows. What still merges is reported.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from gpupipe.backends.float32_loss import MOST_MERGED, NumberUnit
from gpupipe.features.program.compile import KEEPS_SHIFT, center_of
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpupipe.features.program.builder import ProgramBuilder


def keep_resolution(builder: ProgramBuilder) -> None:
    """Center the outputs whose distinct values merge in float32, and warn about them and about those that still do."""
    _center_tables(builder)
    loaded = {name: list(_loads(output.column)) for name, output in builder.outputs.items()}
    schema = builder.statistics.table.schema
    loads = chain.from_iterable(loaded.values())
    leaves = [leaf for leaf in loads if schema[leaf.producer.source].storage == "float64"]
    counts = dict(zip(map(_key, leaves), builder.statistics.distinct_counts(leaves), strict=True))
    merged = {key for key, (n, kept) in counts.items() if n - kept > MOST_MERGED * n}
    if not merged:
        return
    for name, own in loaded.items():
        for leaf in own:
            if _key(leaf) in merged:
                _handle(builder, name, leaf, *counts[_key(leaf)])


def _handle(builder: ProgramBuilder, name: str, leaf: NumericExpr, n: int, kept: int) -> None:
    output, source = builder.outputs[name], leaf.producer.source
    merging = f"column {source!r}: its {n:,} distinct values become {kept:,} in float32 ({(n - kept) / n:.1%} fewer)"
    if leaf is output.column and all(step.op in KEEPS_SHIFT for step in leaf.transforms):
        (center,) = builder.statistics.medians([replace(leaf, transforms=())])
        centred = leaf.then("CENTER", center, 1.0)
        ((_, left),) = builder.statistics.distinct_counts([centred])
        if left - kept > MOST_MERGED * n:
            builder.outputs[name] = replace(output, column=centred)
            builder.record_state("center", name, {"center": center})
            remaining = "" if left == n else f", which leaves {left:,}"
            builder.warn(f"{merging}; the feature {name!r} is the column minus {center:,.12g}{remaining}")
            return
    builder.warn(
        f"{merging} for the feature {name!r}; derive a difference or parts of it, or declare it as categorical"
    )


def _center_tables(builder: ProgramBuilder) -> None:
    """Center the outputs that look up numbers whose differences float32 loses, such as means of a target."""
    for name, output in builder.outputs.items():
        table = output.column.producer.table
        if (
            table is None
            or table.dtype.name == "float32"
            or any(s.op not in KEEPS_SHIFT for s in output.column.transforms)
        ):
            continue
        center, _ = NumberUnit.of(table[table == table], has_units=False)
        builder.outputs[name] = replace(output, column=output.column.then("CENTER", center, 1.0))
        builder.record_state("center", name, {"center": center})
        builder.warn(f"{name}: float32 would lose the differences of its values; the feature is minus {center:,.12g}")


def _loads(column: NumericExpr) -> Iterator[NumericExpr]:
    """Yield the expressions that load a table column, among an expression and its operands."""
    if column.producer.op == "LOAD":
        yield column
    for operand in column.producer.operands:
        yield from _loads(operand)


def _key(column: NumericExpr) -> tuple[str, float]:
    return column.producer.source, center_of(column.transforms)
