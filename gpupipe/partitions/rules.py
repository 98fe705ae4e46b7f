"""Rules of columns, judged where the rows are; what is unique, all rows say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.partitions.encode import Declarations, encoded
from gpupipe.partitions.source_chunks import ArrowPiece, ArrowPieces
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers
from gpupipe.rules import ColumnRules, RuleViolation, merge_violations
from gpupipe.rules.check import Rules, find_violations
from gpupipe.rules.levels import LevelChecker
from gpupipe.rules.settings import ORDER
from gpupipe.rules.violation import ROWS_SHOWN
from gpupipe.table.blocks import Table
from gpupipe.table.schema import FIRST_LEVEL
from gpupipe.typing import Array

TEXTS_AT_ONCE = 256 << 20  # bytes that are gathered to find out which of them are there twice


def judge_partitions(table: PartitionedTable, rules: Rules, backend: Backend) -> list[RuleViolation]:
    """Return what is broken in a table in partitions; as `gpupipe.rules.check.find_violations`.

    Each worker judges its own rows. A column that must be unique is gathered: one at a time, of texts a share.

    Parameters
    ----------
    backend : Backend
        The host, where repeated values are looked for.
    """
    of_rows = {name: [part for each in given for part in _less_unique(each)] for name, given in rules.items()}
    broken = merge_violations(table.ask(judge_part, of_rows, label="the rules of data"), table.bounds[:-1])
    for name, given in rules.items():
        if unique := [ColumnRules(unique=True, otherwise=each.otherwise) for each in given if each.unique]:
            broken += [found for each in unique for found in _repeated(table, name, each, backend)]
    columns = list(rules)
    return sorted(broken, key=lambda each: (columns.index(each.column), ORDER.index(each.rule.partition(":")[0])))


def partitioned_columns(
    found: ArrowPieces, names: Sequence[str], workers: Workers, declared: Declarations
) -> PartitionedTable:
    """Return some columns of a source that workers have read, encoded; the pieces stay."""
    pieces = [
        ArrowPiece(workers.submit(_columns, piece.rows, list(names), label="columns with rules"), piece.n_rows)
        for piece in found.pieces
    ]
    schema = pa.schema([found.schema.field(name) for name in names])
    return encoded(ArrowPieces(pieces, schema, [], []), workers, declared)


def judge_part(backend: Backend, table: Table, rules: Rules) -> list[RuleViolation]:
    """Return what is broken in the rows of a partition."""
    return find_violations(table, rules, backend)


def _less_unique(rules: ColumnRules) -> list[ColumnRules]:
    """Return the rules that rows can be judged by alone; none, perhaps."""
    if not rules.unique:
        return [rules]
    return [rules.model_copy(update={"unique": False})] if rules.names != ["unique"] else []


def _repeated(table: PartitionedTable, name: str, rules: ColumnRules, backend: Backend) -> list[RuleViolation]:
    """Return what is there more than once in a column that is gathered; of texts, some of them at a time."""
    schema = table.schema.select([name])
    if storage := schema[name].storage:
        alone = Table(schema, table.n_rows, {storage: np.asarray(table.column(name))[None]}, {name: (storage, 0)})
        return find_violations(alone, {name: [rules]}, backend)
    found: list[RuleViolation] = []
    shares = 1 + sum(table.ask(_text_bytes, name)) // TEXTS_AT_ONCE
    for share in range(shares):
        parts = table.ask(_share, name, share, shares, label=f"column {name}")
        rows = np.concatenate([own + start for (own, _), start in zip(parts, table.bounds[:-1], strict=True)])
        texts = pa.chunked_array([own for _, own in parts], pa.large_string())
        broken = find_violations(Table(schema, len(rows), {}, {}, {name: texts}), {name: [rules]}, backend)
        found += [replace(each, rows=tuple(rows[list(each.rows)].tolist())) for each in broken]
    if not found:
        return []
    first = sorted(pair for each in found for pair in zip(each.rows, each.values, strict=True))[:ROWS_SHOWN]
    of_all, values = zip(*first, strict=True)
    return [replace(found[0], n_rows=sum(each.n_rows for each in found), rows=of_all, values=values)]


def _text_bytes(backend: Backend, table: Table, name: str) -> int:
    return int(table.texts[name].nbytes)


def _share(backend: Backend, table: Table, name: str, share: int, shares: int) -> tuple[Array, pa.Array]:
    """Return a share of the texts, equal ones always in the same one, and the rows that they are in."""
    levels = LevelChecker.of(table, name, backend)
    chosen = np.zeros(levels.n_codes, bool)
    chosen[FIRST_LEVEL:] = True if shares == 1 else _hashes(levels.texts) % np.uint64(shares) == share
    rows = np.flatnonzero(chosen[levels.codes])
    return rows, levels.texts.take(pa.array(levels.codes[rows] - FIRST_LEVEL))


def _hashes(texts: pa.Array) -> Array:
    from pandas.util import hash_array

    return hash_array(np.array(texts.to_pylist(), object), categorize=False)


def _columns(backend: Backend, rows: pa.Table, names: list[str]) -> pa.Table:
    return rows.select(names)
