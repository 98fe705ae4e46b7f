"""Derived columns that are learned from the distinct texts of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.table.arrange import LookedUpColumns, look_up
from gpupipe.table.schema import Column

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.features.history.derivation import Derivation, TextCorpus
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
    from gpupipe.features.ops.text_vectors import TextVectors

    ops, found = list(derivation.ops), []
    for name, distinct in derivation.texts.items():
        op = ops[distinct.op]
        assert isinstance(op, TextVectors)
        values = np.zeros((len(distinct.names), len(distinct.values)), np.float32)
        if not is_preview:
            weights = statistics.weight_sums([_positions(name, distinct)])[0]
            ops[distinct.op] = op = op.learn(distinct, weights, statistics.seed)
            backend = statistics.backend
            values[:, :-1] = backend.to_host(op.values(distinct.values, distinct.column, backend))[:, :-1]
        column = Column("", "numeric", "float", False, "float32", derived=True, has_scale=True)
        found.append(LookedUpColumns(name, tuple(replace(column, name=made) for made in distinct.names), values))
    lookups = tuple(found)
    statistics.add_looked_up(lookups)
    return replace(derivation, ops=tuple(ops), texts={}), lookups


def _positions(name: str, distinct: TextCorpus) -> CategoryExpr:
    """Return the positions of the texts of the rows as an expression, of which rows can be counted."""
    return CategoryExpr(name, (name,), (IndexTerm("INDEX", name),), len(distinct.values), ())
