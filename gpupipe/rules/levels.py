"""Rule checks of categorical, boolean and text columns, on their distinct values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import number_array, scalar, text_array, to_numpy
from gpupipe.backends.base import Backend
from gpupipe.rules.labels import is_boolean, is_time, to_level
from gpupipe.rules.predicate import RulePredicate, block_rows
from gpupipe.rules.settings import ColumnRules
from gpupipe.table.blocks import Table
from gpupipe.table.numeric_columns import parse_numbers
from gpupipe.table.schema import FIRST_LEVEL, NULL, TEXT_KINDS, Column
from gpupipe.table.string_columns import as_dictionary, dictionaries, write_codes
from gpupipe.typing import Array


@dataclass(frozen=True, eq=False)
class LevelChecker:
    """Checker of a column of codes of its distinct values.

    `codes` are int, shape (n_rows,), in the memory of `backend`. ``texts[i]`` is the value of code ``FIRST_LEVEL + i``;
    `texts` are of type large_string.
    """

    column: Column
    codes: Array
    texts: pa.Array
    backend: Backend

    @classmethod
    def of(cls, table: Table, name: str, backend: Backend) -> LevelChecker:
        """Return the checker of a column of a table; text columns are encoded for it, on the host."""
        column = table.schema[name]
        if column.levels is not None:
            return cls(column, table.column(name), text_array(column.levels, pa.large_string()), backend)
        coded = as_dictionary(table.texts[name])
        tables = dictionaries(coded)
        # large_string: the strings of all chunks together may exceed the 2 GiB of Arrow's int32 offsets.
        empty = text_array([], pa.large_string())
        distinct = pa.concat_arrays([empty, *(each.cast(empty.type) for each in tables)]).dictionary_encode()
        of_all = (
            to_numpy(pc.fill_null(distinct.indices, scalar(NULL - FIRST_LEVEL, pa.int32()))) + FIRST_LEVEL
        ).astype(np.int32)
        cuts = np.cumsum([len(each) for each in tables])[:-1]
        codes = np.empty(len(coded), np.int32)
        write_codes(coded, list(zip(tables, np.split(of_all, cuts), strict=False)), codes)
        return cls(column, codes, distinct.dictionary, backend.host)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_codes(self) -> int:
        """Number of codes, including the reserved codes."""
        return FIRST_LEVEL + len(self.texts)

    @cached_property
    def counts(self) -> Array:
        """Number of rows per code; int64, shape (n_codes,), on the host."""
        counts = np.zeros(self.n_codes, np.int64)
        step = block_rows(self.backend)
        xp = self.backend.xp
        for start in range(0, len(self), step):
            counts += self.backend.to_host(xp.bincount(self.codes[start : start + step], minlength=self.n_codes))
        return counts

    def predicates(self, rules: ColumnRules, given: Sequence[str]) -> list[RulePredicate]:
        """Return the predicates of the rules `given`."""
        wrong: dict[str, Callable[[], Array]] = {
            "nulls": lambda: np.arange(self.n_codes) == NULL,
            "set": lambda: self._levels(pc.invert(pc.is_in(self.texts, value_set=self._allowed(rules.set or ())))),
            "regex": lambda: self._levels(pc.invert(pc.match_substring_regex(self.texts, rf"\A(?:{rules.regex})\z"))),
            "unique": lambda: (self.counts > 1) & (np.arange(self.n_codes) >= FIRST_LEVEL),
        }
        return [self._predicate(rules.text(rule), wrong[rule]()) for rule in given if rule in wrong]

    def kind_predicate(self, rules: ColumnRules) -> RulePredicate:
        """Return the predicate of strings that cannot be read as the kind of the rules."""
        able: dict[str, Callable[[], Array]] = {
            "numeric": lambda: pc.is_valid(parse_numbers(pc.utf8_trim_whitespace(self.texts))),
            "boolean": lambda: _each(self.texts, is_boolean),
            "datetime": lambda: _each(self.texts, is_time),
        }
        is_text = self.column.kind in TEXT_KINDS
        if is_text and rules.kind in able:
            wrong = self._levels(pc.invert(able[rules.kind]()))
        else:
            wrong = np.arange(self.n_codes) >= FIRST_LEVEL
        predicate = self._predicate(rules.text("dtype" if rules.dtype else "range"), wrong)
        detail = f"the column is {self.column.kind}"
        if not predicate.n_rows:
            detail += f", but all values can be read as {rules.kind}"
        return RulePredicate(predicate.rule, predicate.against, predicate.n_rows, detail=detail, is_of_column=True)

    def shown(self, rows: Sequence[int]) -> list[str]:
        """Return the values of some rows as text."""
        codes = self.backend.to_host(self.codes[self.backend.to_device(np.array(rows))]).tolist()
        return ["null" if code < FIRST_LEVEL else repr(self.texts[code - FIRST_LEVEL].as_py()) for code in codes]

    def _predicate(self, rule: str, wrong: Array) -> RulePredicate:
        there = self.backend.to_device(wrong)
        n_rows = int(self.counts[wrong].sum())
        return RulePredicate(rule, lambda start, stop: there[self.codes[start:stop].astype("int64")], n_rows)

    def _levels(self, wrong: Any) -> Array:
        """Return the mask of codes from the mask of values; reserved codes are never wrong."""
        return np.concatenate([np.zeros(FIRST_LEVEL, bool), to_numpy(wrong)])

    def _allowed(self, labels: Iterable[Any]) -> pa.Array:
        return text_array((to_level(label, self.column.kind) for label in labels), pa.large_string())


def _each(texts: pa.Array, holds: Callable[[str], bool]) -> pa.Array:
    return number_array(np.array([holds(text) for text in texts.to_pylist()], bool))
