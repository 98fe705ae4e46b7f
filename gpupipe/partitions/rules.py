"""Rules of columns, checked by the workers that hold the rows; uniqueness is checked over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.io.notes import Notes
from gpupipe.partitions.encode import Declarations, encode_chunks
from gpupipe.partitions.source_chunks import ArrowChunk, ArrowChunks
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
from gpupipe.units import MIB

TEXTS_AT_ONCE = 256 * MIB  # bytes gathered at a time to find duplicates


@find_violations.register(PartitionedTable)
def _(table: PartitionedTable, rules: Rules, backend: Backend) -> list[RuleViolation]:
    """Return the rule violations of a partitioned table.

    Each worker checks its own rows. Unique columns are gathered one at a time, text in batches; `backend`, the host's,
    searches them for duplicates.
    """
    of_rows = {name: list(chain.from_iterable(map(_less_unique, given))) for name, given in rules.items()}
    found = table.compute(lambda backend, rows: find_violations(rows, of_rows, backend), label="the rules of data")
    broken = merge_violations(found, table.bounds[:-1])
    for name, given in rules.items():
        unique = [ColumnRules(unique=True, otherwise=each.otherwise) for each in given if each.unique]
        broken += chain.from_iterable(_repeated(table, name, each, backend) for each in unique)
    columns = list(rules)
    return sorted(broken, key=lambda each: (columns.index(each.column), ORDER.index(each.rule.partition(":")[0])))


def encode_columns(
    found: ArrowChunks, names: Sequence[str], workers: Workers, declared: Declarations
) -> PartitionedTable:
    """Return encoded columns of a source that workers have read; the chunks are kept."""
    rows = workers.map(
        lambda _, rows: rows.select(list(names)),
        [(chunk.rows,) for chunk in found.chunks],
        ["columns with rules"] * len(found.chunks),
    )
    chunks = [ArrowChunk(own, chunk.n_rows) for own, chunk in zip(rows, found.chunks, strict=True)]
    schema = pa.schema([found.schema.field(name) for name in names])
    return encode_chunks(ArrowChunks(chunks, schema, Notes(), []), workers, declared)


def _less_unique(rules: ColumnRules) -> list[ColumnRules]:
    """Return the rules that apply to single rows."""
    if not rules.unique:
        return [rules]
    return [rules.model_copy(update={"unique": False})] if rules.names != ["unique"] else []


def _repeated(table: PartitionedTable, name: str, rules: ColumnRules, backend: Backend) -> list[RuleViolation]:
    """Return duplicates of a gathered column; texts are gathered in batches."""
    schema = table.schema.select([name])
    if storage := schema[name].storage:
        alone = Table(schema, table.n_rows, {storage: np.asarray(table.column(name))[None]}, {name: (storage, 0)})
        return find_violations(alone, {name: [rules]}, backend)
    found: list[RuleViolation] = []
    shares = 1 + sum(table.compute(lambda _, rows: rows.texts[name].nbytes, label=f"column {name}")) // TEXTS_AT_ONCE
    for share in range(shares):
        parts = table.compute(_share, name, share, shares, label=f"column {name}")
        rows = np.concatenate([own + start for (own, _), start in zip(parts, table.bounds[:-1], strict=True)])
        texts = pa.chunked_array([own for _, own in parts], pa.large_string())
        broken = find_violations(Table(schema, len(rows), {}, {}, {name: texts}), {name: [rules]}, backend)
        found += [replace(each, rows=tuple(rows[list(each.rows)].tolist())) for each in broken]
    if not found:
        return []
    first = sorted(chain.from_iterable(zip(each.rows, each.values, strict=True) for each in found))[:ROWS_SHOWN]
    of_all, values = zip(*first, strict=True)
    return [replace(found[0], n_rows=sum(each.n_rows for each in found), rows=of_all, values=values)]


def _share(backend: Backend, table: Table, name: str, share: int, shares: int) -> tuple[Array, pa.Array]:
    """Return one of several hash buckets of the texts, equal texts in the same bucket, with their rows."""
    levels = LevelChecker.of(table, name, backend)
    chosen = np.zeros(levels.n_codes, bool)
    chosen[FIRST_LEVEL:] = True if shares == 1 else _hashes(levels.texts) % np.uint64(shares) == share
    rows = np.flatnonzero(chosen[levels.codes])
    return rows, levels.texts.take(pa.array(levels.codes[rows] - FIRST_LEVEL))


def _hashes(texts: pa.Array) -> Array:
    from pandas.util import hash_array

    return hash_array(np.array(texts.to_pylist(), object), categorize=False)
