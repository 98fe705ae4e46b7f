"""Which rows of an encoded table are against the rules of its columns.

Texts and categories are judged by their distinct values; rows are looked for only where one of these is wrong. Numbers
and times are gone through in blocks. No column is copied, but for ``unique`` those of numbers are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError
from gpupipe.rules.broken import ROWS_SHOWN, Broken
from gpupipe.rules.levels import Levels
from gpupipe.rules.numbers import Numbers
from gpupipe.rules.question import Question, block_rows
from gpupipe.rules.settings import ABLE, TEXTS, ColumnRules
from gpupipe.table.blocks import Table
from gpupipe.table.schema import Column

Array = Any
Rules = Mapping[str, Sequence[ColumnRules]]


@dataclass(frozen=True, eq=False)
class BrokenCells:
    """The cells of a column that are against one of its rules.

    Attributes
    ----------
    column : str
    rule : str
        As it is written: ``"range: [0, 100]"``.
    rows : array of bool, shape (n_rows,)
        On the host.
    """

    column: str
    rule: str
    rows: Array


def judge(table: Table, rules: Rules, backend: Backend) -> list[Broken]:
    """Return what is broken, in the order of `rules`.

    Parameters
    ----------
    table : Table
        Where `backend` computes; columns of text are on the host, as Arrow holds them.
    rules : mapping of str to sequence of ColumnRules
        By column, each of which the table has.
    backend : Backend

    Raises
    ------
    ConfigError
        If a rule cannot judge a column of its kind.
    SchemaError
        If whole numbers may repeat that the encoded table does not tell apart.
    """
    pairs = [(name, each) for name, of_column in rules.items() for each in of_column]
    found = backend.map(lambda pair: _judge(table, *pair, backend), pairs)
    return [broken for each in found for broken in each]


def broken_cells(table: Table, rules: Rules, backend: Backend) -> list[BrokenCells]:
    """Return every cell that is against a rule which refuses; parameters and errors are those of `judge`."""
    found = []
    for name, given in rules.items():
        for each in given:
            if each.otherwise == "warn":
                continue
            values, questions = _questions(table, name, each, backend)
            for question in questions:
                mask = _mask(question, len(values), values.backend)
                if mask.any():
                    found.append(BrokenCells(name, question.rule, mask))
    return found


def _mask(question: Question, n_rows: int, backend: Backend) -> Array:
    step = block_rows(backend)
    parts = [question.against(start, min(n_rows, start + step)) for start in range(0, n_rows, step)]
    return backend.to_host(backend.xp.concatenate(parts)) if parts else np.zeros(0, bool)


def _judge(table: Table, name: str, rules: ColumnRules, backend: Backend) -> list[Broken]:
    values, questions = _questions(table, name, rules, backend)
    found = ((question, *_rows(question, len(values), values.backend)) for question in questions)
    return [_broken(name, values, rules, *each) for each in found if each[1] or each[0].is_of_column]


def _questions(
    table: Table, name: str, rules: ColumnRules, backend: Backend
) -> tuple[Levels | Numbers, list[Question]]:
    """Return a column as its rules see it, and the rules as questions to it."""
    column = table.schema[name]
    if _is_of_kind(column, rules):
        given = rules.names
        _require_able(column, given)
    else:  # the rules that its values would be judged by say nothing more of it
        given = [rule for rule in rules.names if rule in ("nulls", "unique")]
    kind: Any = Levels if column.levels is not None or column.kind == "text" else Numbers
    values: Levels | Numbers = kind.of(table, name, backend)
    questions = values.questions(rules, given)
    if not _is_of_kind(column, rules):
        questions = [values.kind_question(rules), *questions]
    return values, questions


def _is_of_kind(column: Column, rules: ColumnRules) -> bool:
    return rules.kind in (None, column.kind) or (rules.kind in TEXTS and column.kind in TEXTS)


def _require_able(column: Column, given: Sequence[str]) -> None:
    for rule in given:
        if column.kind not in ABLE.get(rule, (column.kind,)):
            raise ConfigError(
                f"{rule} cannot judge {column.name!r}: the column is {column.kind}",
                where=f"data.{column.name}.{rule}",
                fix=f"it is for columns that are {', '.join(ABLE[rule])}: declare it one of them in source.schema, or "
                "take another rule",
            )


def _rows(question: Question, n_rows: int, backend: Backend) -> tuple[int, list[int]]:
    """Return how many rows are against a question, and the first of them."""
    xp, step, count = backend.xp, block_rows(backend), 0
    rows: list[int] = []
    if question.n_rows == 0:
        return 0, rows
    for start in range(0, n_rows, step):
        mask = question.against(start, min(n_rows, start + step))
        found = int(backend.to_host(mask.sum()))
        if found and len(rows) < ROWS_SHOWN:
            first = backend.to_host(xp.flatnonzero(mask)[: ROWS_SHOWN - len(rows)])
            rows += (first + start).tolist()
        count += found
        if question.n_rows is not None and len(rows) == min(ROWS_SHOWN, question.n_rows):
            return question.n_rows, rows
    return count, rows


def _broken(
    name: str, values: Levels | Numbers, rules: ColumnRules, question: Question, n_rows: int, rows: list[int]
) -> Broken:
    extremes = question.extremes() if question.extremes is not None else None
    shown = tuple(values.shown(rows)) if rows else ()
    return Broken(name, question.rule, n_rows, tuple(rows), shown, rules.otherwise == "warn", extremes, question.remark)
