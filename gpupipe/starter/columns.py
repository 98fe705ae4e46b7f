"""The columns of a table: their facts, their declared kinds, and the ones to drop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends import choose
from gpupipe.io.settings import TableSource
from gpupipe.starter.facts import ColumnFacts, collect_facts
from gpupipe.starter.sentinels import Sentinel, find_sentinels, with_null_values, without_sentinels
from gpupipe.starter.source_table import SourceTable, read_source_table
from gpupipe.starter.useless_columns import FREE_TEXT, find_useless_columns
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.number_texts import NumberFormat, guess_format, is_band
from gpupipe.table.schema import declare
from gpupipe.table.time_formats import digit_format, time_formats, time_unit
from gpupipe.typing import Array
from gpupipe.units import is_number

WORD = r"[^\W\d_]{3,}"
TIME_WORDS = re.compile(r"(^|_)(time|date|day|timestamp|ts|epoch|at|on|created|updated|when)(_|$)|timestamp|datetime")
MAX_ROWS_TO_COMPARE = 300_000
SOME_TEXTS, MIN_TEXTS = 2_000, 3
MIN_RECURRING = 0.5  # of the words
MAX_SHARE = 0.5  # of the texts; a word of more of them, such as the prefix of a number, tells little
SIMILAR_LEVELS = 40  # more levels have similar ones: the cardinality threshold of skrub's TableVectorizer


@dataclass(frozen=True)
class ColumnDeclaration:
    """An entry of ``schema:`` with the reason."""

    kind: str
    reason: str
    format: str | None = None
    numbers: NumberFormat | None = None
    """Notation of the numbers of a text column, for the op `parse_number`."""
    is_free_text: bool = False
    """True if the words of the texts recur, for the op `text_vectors`."""


def find_declarations(facts: Mapping[str, ColumnFacts], source_table: SourceTable) -> dict[str, ColumnDeclaration]:
    """Return the declarations that columns need, by name."""
    found: dict[str, ColumnDeclaration] = {}
    for name, example in source_table.codes.items():
        found[name] = ColumnDeclaration("categorical", f"codes such as {example}: their leading zeros are kept")
    for name, column in facts.items():
        if name in found:
            continue
        declared = _of_text(column) if column.holds == "text" else _of_integers(column)
        if declared is not None:
            found[name] = declared
    for name, n in source_table.blanks.items():
        found[name] = ColumnDeclaration("float", f"{n:,} blank{'s become' if n > 1 else ' becomes'} missing")
    return found


def _of_text(column: ColumnFacts) -> ColumnDeclaration | None:
    texts = column.texts
    if texts and all(is_number(text) and not _is_code(text) for text in texts):
        return ColumnDeclaration("float", "numbers written as text")
    formats = time_formats(texts)
    if not formats:
        numbers = guess_format(texts)
        is_selector = column.name[:1] in ("!", "@")  # an op cannot name it
        return None if numbers is None or is_selector else _of_numbers(column, numbers)
    reason = f"such as {texts[0]}"
    if len(formats) > 1:
        reason += f"; all values also match {' and '.join(formats[1:])}"
    return ColumnDeclaration("datetime", reason, formats[0] or None)


def _of_numbers(column: ColumnFacts, numbers: NumberFormat) -> ColumnDeclaration:
    """Return the declaration of texts with numbers, with the rows that become missing."""
    values = np.array([numbers.parse(text) for text in column.texts])
    wrong = np.isnan(values)
    read = [text for text, is_wrong in zip(column.texts, wrong, strict=True) if not is_wrong]
    example = next((text for text in read if not is_number(text)), read[0])
    reason = f"numbers such as {example}, read by parse_number"
    if band := next((text for text in read if numbers.has_bands and is_band(text)), ""):
        reason += f"; a band such as {band} is its limit"
    if n := int(column.counts[wrong].sum()):
        other = column.texts[int(np.flatnonzero(wrong)[0])]
        reason += f"; {n:,} {'text becomes' if n == 1 else 'texts become'} missing, such as {other}"
    return ColumnDeclaration("text", reason, numbers=numbers)


def _is_code(text: str) -> bool:
    """Return whether a number is written as a code, with a leading zero: 01234."""
    return len(text) > 1 and text[0] == "0" and text.isdecimal()


def _of_integers(column: ColumnFacts) -> ColumnDeclaration | None:
    if column.holds != "integer" or not TIME_WORDS.search(column.name.lower()):
        return None
    if (unit := time_unit(*column.range)) is not None:
        return ColumnDeclaration("datetime", "time since 1970", unit)
    digits = digit_format(*column.range)
    return ColumnDeclaration("datetime", "dates in digits", digits) if digits == "%Y%m%d" else None


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table."""

    source_table: SourceTable
    facts: Mapping[str, ColumnFacts]
    declared: Mapping[str, ColumnDeclaration]  # the entries of ``schema:``
    dropped: Mapping[str, str]  # the entries of ``drop:``, each with the reason
    distinct_facts: Mapping[str, ColumnFacts]  # the facts of the rows that do not repeat an earlier row
    n_repeated: int = 0  # number of rows that repeat an earlier row; 0 if the table is too long to compare them
    # The values that mark missing values, which are null in `source_table` and `facts`, except for those that
    # ``csv.null_values`` has.
    sentinels: Mapping[str, Sentinel] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return int(self.source_table.table.num_rows)

    @property
    def kept(self) -> list[str]:
        """The columns that are not dropped."""
        return [name for name in self.facts if name not in self.dropped]

    def kind(self, name: str) -> str:
        """Return the kind of a column."""
        if name in self.declared:
            return self.declared[name].kind
        kinds = {"text": "categorical", "integer": "numeric", "number": "numeric", "time": "datetime"}
        return kinds.get(self.facts[name].holds, "boolean")

    def declare(self, found: Mapping[str, ColumnDeclaration]) -> TableColumns:
        """Return the columns with further declarations."""
        return replace(self, declared={**self.declared, **found})

    def similar_texts(self, names: Sequence[str]) -> list[str]:
        """Return those of some columns whose texts may be similar: free texts, and categories with many levels."""
        return [name for name in names if name[:1] not in ("!", "@") and self._is_similar(name)]

    def _is_similar(self, name: str) -> bool:
        if name in self.declared:
            return self.declared[name].is_free_text
        column = self.facts[name]
        if column.holds != "text" or column.n_distinct <= SIMILAR_LEVELS:
            return False
        return sum(bool(re.search(WORD, text)) for text in column.texts) >= len(column.texts) / 2

    def drop(self, reasons: Mapping[str, str]) -> TableColumns:
        """Return the columns with further ones dropped."""
        declared = {name: declared for name, declared in self.declared.items() if name not in reasons}
        return replace(self, declared=declared, dropped={**self.dropped, **reasons})

    def keep(self, names: Collection[str]) -> TableColumns:
        """Return the columns with some of them kept, which may be dropped so far."""
        return replace(self, dropped={name: reason for name, reason in self.dropped.items() if name not in names})

    def encoded(self) -> Table:
        """Return the encoded table of the columns that are not dropped."""
        declared = {name: declare(found.kind, found.format) for name, found in self.declared.items()}
        table = self.source_table.table.select(self.kept)
        for name in self.written_numbers():
            values = self._parsed(name)
            table = table.set_column(table.column_names.index(name), name, values)
            declared[name] = declare("float")
        return encode(table, choose("cpu"), declared)

    def written_numbers(self) -> dict[str, NumberFormat]:
        """Return the kept columns of numbers in texts, and how they are written."""
        found = {name: self.declared[name].numbers for name in self.kept if name in self.declared}
        return {name: numbers for name, numbers in found.items() if numbers is not None}

    def _parsed(self, name: str) -> pa.Array:
        """Return the numbers of a column of texts."""
        facts, numbers = self.facts[name], self.written_numbers()[name]
        parsed = pa.array([numbers.parse(text) for text in facts.texts], pa.float64(), from_pandas=True)
        texts = facts.values.cast(pa.string()).combine_chunks()
        return parsed.take(pc.index_in(texts, value_set=pa.array(facts.texts, pa.string())))


def inspect_columns(path: str, source: TableSource | None = None) -> TableColumns:
    """Read a table and inspect its columns; `source` has the format settings given by the user.

    Raise DataError if the table cannot be read.
    """
    source_table = read_source_table(path, source)
    source_table = read_source_table(path, source)
    facts = collect_facts(source_table.table)
    sentinels = find_sentinels(facts)
    source_table = replace(source_table, table=without_sentinels(source_table.table, sentinels))
    facts |= collect_facts(source_table.table.select(list(sentinels)))
    repeats = _repeats(source_table.table)
    n_repeated = int(repeats.sum())
    # A row that was exported twice repeats its identifier, too.
    distinct = collect_facts(source_table.table.filter(pa.array(~repeats))) if n_repeated else facts
    declared = find_declarations(facts, source_table)
    columns = TableColumns(source_table, facts, declared, {}, distinct, n_repeated, sentinels)
    useless = find_useless_columns(distinct, set(declared) - set(source_table.codes))
    texts = {}
    for name in [name for name in useless if facts[name].holds == "text" and name[:1] not in ("!", "@")]:
        is_text = useless[name] == FREE_TEXT
        share = (share_of_recurring_words if is_text else share_of_names)(facts[name].texts)
        if share >= MIN_RECURRING:
            reason = f"{FREE_TEXT if is_text else 'names'}; {share:.0%} of its words recur in other rows"
            texts[name] = ColumnDeclaration("text", reason, is_free_text=True)
    columns = columns.declare(texts).drop({name: reason for name, reason in useless.items() if name not in texts})
    dates = [name for name in sentinels if name in columns.kept and columns.kind(name) == "datetime"]
    source_table, written = with_null_values(source_table, dates, sentinels, facts)
    sentinels = {name: found for name, found in sentinels.items() if name not in written}
    return replace(columns, source_table=source_table, sentinels=sentinels)


def share_of_recurring_words(texts: Sequence[str]) -> float:
    """Return the share of the words, counted once per text, that occur in at least `MIN_TEXTS` of the texts."""
    return _share_of_recurring(_word_counts(texts, r"\w+"))


def share_of_names(texts: Sequence[str]) -> float:
    """Return the share of recurring words as `share_of_recurring_words`, for names and titles; 0 for identifiers.

    Words without digits count, except those of most texts, such as the prefix of a number. Identifiers have less than
    one per text.
    """
    counts, n_texts = _word_counts(texts, WORD), min(len(texts), SOME_TEXTS)
    counts = Counter({word: n for word, n in counts.items() if n <= MAX_SHARE * n_texts})
    return _share_of_recurring(counts) if counts.total() >= n_texts else 0.0


def _word_counts(texts: Sequence[str], word: str) -> Counter[str]:
    return Counter(chain.from_iterable(set(re.findall(word, text.lower())) for text in texts[:SOME_TEXTS]))


def _share_of_recurring(counts: Counter[str]) -> float:
    return sum(n for n in counts.values() if n >= MIN_TEXTS) / max(1, counts.total())


def _repeats(table: pa.Table) -> Array:
    """Return whether each row repeats an earlier one, shape (n_rows,); all false if the table is long."""
    if table.num_rows > MAX_ROWS_TO_COMPARE:
        return np.zeros(table.num_rows, bool)
    repeats: Array = table.to_pandas().duplicated().to_numpy()
    return repeats
