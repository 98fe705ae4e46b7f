"""Fit ops to training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from gpupipe.backends.float32_loss import MOST_MERGED, NumberUnit
from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.ops.auto import Auto
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.compile import KEEPS_SHIFT, center_of, compile_program
from gpupipe.features.program.expressions import NumericExpr, OutputColumn, TextExpr
from gpupipe.features.program.fitted import Feature, FittedFeatures, moves
from gpupipe.features.program.learned_columns import learn_columns
from gpupipe.features.statistics.training import Statistics
from gpupipe.features.statistics.training_summary import summarize
from gpupipe.table.blocks import layout
from gpupipe.table.schema import Schema
from gpupipe.tasks import MEMBER_VIEWS, View
from gpupipe_kernels.program.program import block_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpupipe.features.program.builder import ProgramBuilder


def fit_features(
    ops: Sequence[FeatureOp],
    statistics: Statistics,
    view: View,
    derivation: Derivation | None = None,
    withheld: Mapping[str, str] | None = None,
) -> FittedFeatures:
    """Fit `ops` to the training rows of `statistics`.

    Raise ConfigError if an op does not apply to the columns, or no feature remains.

    - `ops`: in order of application; columns that no feature represents afterwards are handled by `Auto`
    - `statistics`: may be shared by several views: it caches its results
    - `view` ({"codes", "dense", "embedding", "combined"}): the form that suits the model. In the embedding view,
      numbers come first and ids last, so that each is one block of the column-major matrix. The combined view has the
      columns of the others; `FittedFeatures.views` lists them.
    - `derivation`: computation of the derived columns
    - `withheld`: as in `ProgramBuilder`
    """
    derivation, lookups = learn_columns(derivation, statistics)
    if view == "combined":
        found = _combined([_applied(ops, statistics, part, withheld) for part in MEMBER_VIEWS], derivation)
    else:
        found = finish_features(_applied(ops, statistics, view, withheld), derivation)
    return replace(found, lookups=lookups)


def _applied(
    ops: Sequence[FeatureOp], statistics: Statistics, view: View, withheld: Mapping[str, str] | None
) -> ProgramBuilder:
    builder = ProgramBuilder(statistics, view, withheld)
    for i, op in enumerate(ops):
        builder.apply(op, f"features[{i}]")
    return builder


def finish_features(builder: ProgramBuilder, derivation: Derivation | None = None) -> FittedFeatures:
    """Return the fitted features after all ops have been applied; `Auto` handles the remaining columns.

    Raise ConfigError if no feature remains.
    """
    outputs = _outputs(builder, derivation)
    return _written(outputs, [builder], derivation)


def _combined(builders: Sequence[ProgramBuilder], derivation: Derivation | None) -> FittedFeatures:
    """Return the features of several views as one matrix.

    Dense columns whose names the codes view has are named ``NAME (dense)``. The embedding view adds few columns, if
    any: its ids are those of the codes view, and its numbers those of the dense view.
    """
    columns: dict[str, OutputColumn] = {}
    views: dict[View, dict[str, str]] = {}
    for builder in builders:
        views[builder.view] = names = {}
        for output in _outputs(builder, derivation):
            name = output.column.name
            if builder.view == "embedding":
                known = views["codes" if output.n_codes else "dense"].get(name)
                if known is not None and columns[known].n_codes == output.n_codes:
                    names[name] = known
                    continue
            names[name] = f"{name} ({builder.view})" if name in columns else name
            columns[names[name]] = replace(output, column=replace(output.column, name=names[name]))
    places = {name: i for i, name in enumerate(columns)}
    layouts = {view: tuple(places[name] for name in names.values()) for view, names in views.items()}
    return replace(_written(list(columns.values()), builders, derivation), views=layouts)


def _outputs(builder: ProgramBuilder, derivation: Derivation | None) -> list[OutputColumn]:
    read = () if derivation is None else derivation.inputs
    rest = [n for n in builder.unrepresented() if not (n in read and isinstance(builder.columns[n], TextExpr))]
    if rest:
        Auto(columns=rest).apply(builder)
    for name in builder.unrepresented():
        if not isinstance(builder.columns[name], TextExpr):
            builder.warn(f"column {name!r} dropped: it has no values in the training rows")
    builder.impute_nulls()
    keep_resolution(builder)
    outputs = list(builder.outputs.values())
    if builder.view == "embedding":
        outputs.sort(key=lambda output: output.n_codes > 0)
    if not outputs:
        fix = "; ".join(builder.warnings) or "select columns that are not dropped"
        raise ConfigError("no feature remains", where="features", fix=fix)
    return outputs


def _written(
    outputs: Sequence[OutputColumn], builders: Sequence[ProgramBuilder], derivation: Derivation | None
) -> FittedFeatures:
    statistics, n_folds = builders[0].statistics, max(builder.n_folds for builder in builders)
    table = statistics.table.schema
    columns = [output.column for output in outputs]
    program = compile_program(columns, statistics.table.places, folds=False)
    used = program.sources
    names = [n for n, (block, row) in statistics.table.places.items() if (block_id(block), row) in used]
    schema = table.select(names)
    places = layout(schema)
    return FittedFeatures(
        schema,
        program.moved(moves({name: statistics.table.places[name] for name in names}, places)),
        tuple(Feature(o.column.name, o.column.inputs, o.op, o.n_codes) for o in outputs),
        compile_program(columns, places) if n_folds else None,
        statistics.folds(n_folds) if n_folds else None,
        tuple(dict.fromkeys(chain.from_iterable(builder.notes for builder in builders))),
        tuple(chain.from_iterable(builder.states for builder in builders)),
        derivation,
        summarize(statistics, Schema((*schema, *(() if derivation is None else derivation.schema)))),
        tuple(dict.fromkeys(chain.from_iterable(builder.warnings for builder in builders))),
    )


def keep_resolution(builder: ProgramBuilder) -> None:
    """Center the outputs whose distinct values merge in float32, and warn about them and about those that still do.

    A program loads a float64 column as ``float32(x - center)``, subtracted in float64. Ops that scale have their own
    center. Other columns get one if their values merge without it and fewer do with it: the median, which is exact and
    does not depend on the order of the rows.
    """
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
