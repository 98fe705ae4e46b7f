"""Derived columns that are learned from the texts and lists of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.errors import ConfigError
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.table.arrange import LookedUpColumns, look_up
from gpupipe.table.schema import Column
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.features.history.derivation import Derivation, DerivedOp, TextCorpus
    from gpupipe.features.ops.text_vectors import TextVectors
    from gpupipe.features.statistics.training import Statistics
    from gpupipe.table.blocks import EncodedTable


def learn_columns(
    derivation: Derivation | None, statistics: Statistics, is_preview: bool = False
) -> tuple[Derivation | None, tuple[LookedUpColumns, ...]]:
    """Return the derivation with ops that have learned from the training rows, and the columns of the rows of the run.

    The table of `statistics` then has these columns. With `is_preview` nothing is learned, and their values are 0.
    """
    if derivation is None or not derivation.texts:
        return derivation, ()
    learned: tuple[Derivation, tuple[LookedUpColumns, ...]] = statistics.remember(
        "learned columns", lambda: _learn(derivation, statistics, is_preview)
    )
    return learned


def complete_rows(
    table: EncodedTable, derivation: Derivation | None, lookups: Sequence[LookedUpColumns], backend: Backend
) -> EncodedTable:
    """Return the rows of a run with the columns that a model has learned, without positions of texts.

    `derivation` is that of the rows, from which the model has learned.
    """
    if derivation is None or not derivation.texts:
        return table
    found: EncodedTable = look_up(table, lookups, backend)
    unread = [name for name in derivation.texts if name in found.schema]
    return found.select(found.schema.without(unread))


def _learn(
    derivation: Derivation, statistics: Statistics, is_preview: bool
) -> tuple[Derivation, tuple[LookedUpColumns, ...]]:
    from gpupipe.features.ops.levels_op import ListLevelsOp
    from gpupipe.features.ops.text_vectors import TextVectors

    ops, made = list(derivation.ops), dict(derivation.made)
    found, n_folds = list[LookedUpColumns](), 0
    for name, distinct in derivation.texts.items():
        op = ops[distinct.op]
        if isinstance(op, ListLevelsOp):
            of_rows = statistics.backend.to_host(statistics.weight_sums([_positions(name, distinct)])[0])
            ops[distinct.op], names, columns = op.learn(distinct.values, distinct.column, of_rows)
            _require_new(names, statistics, op)
            made |= dict.fromkeys(names, made.get(distinct.column, (distinct.column,)))
            found.append(_looked_up(name, names, columns))
            continue
        assert isinstance(op, TextVectors)
        n_targets = _require_target(op, statistics, is_preview)
        k = len(distinct.names)
        names = [*distinct.names, *(f"{op.prefix}{distinct.column}_{target}" for target in op.target_names(n_targets))]
        values = np.zeros((len(names), len(distinct.values)), np.float32)
        of_folds = None
        if not is_preview:
            positions, backend = _positions(name, distinct), statistics.backend
            weights = statistics.weight_sums([positions])[0]
            counts = statistics.target_counts([positions], op.folds)[0] if n_targets else None
            op, of_folds = op.learn(distinct, weights, statistics.seed, counts)
            ops[distinct.op] = op
            values[:, :-1] = backend.to_host(op.values(distinct.values, distinct.column, backend))[:, :-1]
        _require_new(names[k:], statistics, op)
        made |= dict.fromkeys(names, (distinct.column,))
        found.append(_looked_up(name, names[:k], values[:k]))
        if n_targets:
            by_fold = np.repeat(values[k:, None], op.folds + 1, axis=1)
            if of_folds is not None:  # not in it are texts whose rows no model has seen
                by_fold[:, 1:, of_folds.texts] = of_folds.values
            found.append(_looked_up(name, names[k:], by_fold))
            _require_equal(n_folds, op.folds)
            n_folds = op.folds
    lookups = tuple(found)
    statistics.add_looked_up(lookups, n_folds)
    return replace(derivation, ops=tuple(ops), texts={}, made=made), lookups


def _require_target(op: TextVectors, statistics: Statistics, is_preview: bool) -> int:
    """Return the number of columns that predict the target; raise ConfigError if there is none to predict."""
    if not op.target:
        return 0
    if statistics.target is None and not is_preview:
        raise ConfigError(
            "text_vectors with target requires a target",
            where="features: text_vectors",
            fix="set source.target in the configuration, pass y to FeatureProgram.fit(X, y), or remove target: true",
        )
    return 0 if statistics.target is None else statistics.target.n_outputs


def _require_equal(earlier: int, n_folds: int) -> None:
    if earlier not in (0, n_folds):
        what = f"text_vectors: {n_folds} folds conflict with {earlier} folds of an earlier op"
        raise ConfigError(what, where="features: text_vectors", fix="use the same number of folds")


def _require_new(names: Sequence[str], statistics: Statistics, op: DerivedOp) -> None:
    for name in names:
        if name in statistics.table.schema:
            what = f"column {name!r} already exists"
            raise ConfigError(what, where=f"features: {op.title()}", fix="set another prefix", names=[name])


def _looked_up(positions: str, names: Sequence[str], values: HostArray) -> LookedUpColumns:
    column = Column("", "numeric", "float", False, "float32", derived=True, has_scale=True)
    return LookedUpColumns(positions, tuple(replace(column, name=name) for name in names), values)


def _positions(name: str, distinct: TextCorpus) -> CategoryExpr:
    """Return the positions of the texts of the rows as an expression, of which rows can be counted."""
    return CategoryExpr(name, (name,), (IndexTerm("INDEX", name),), len(distinct.values), ())
