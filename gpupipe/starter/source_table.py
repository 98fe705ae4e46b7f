"""Format detection of a table: file format, delimiter, header, encoding and null marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ConfigError, EncodingError, FieldCountError
from gpupipe.io.csv_settings import WHITESPACE, CsvSettings
from gpupipe.io.file_formats import format_of
from gpupipe.io.files import SourceFile, find_files
from gpupipe.io.formats.csv.dialect import detect_dialect, is_missing
from gpupipe.io.formats.csv.encoding import GUESSES, next_encoding
from gpupipe.io.formats.csv.reader import read_texts
from gpupipe.io.origin_settings import DATABASES, database_name
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.io.zip_members import member_format
from gpupipe.starter.facts import collect_facts
from gpupipe.table.list_columns import Lists
from gpupipe.units import MIB, is_number
from gpupipe.user_warnings import UNREAD_LISTS, WarningNote

MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"ARROW1": "arrow", b"{": "jsonl"}
MAX_BYTES_TWICE = 256 * MIB  # larger files are not read a second time to look at the texts of numbers
MIN_LEADING_ZEROS = 0.01  # of the rows, in codes of several lengths; fewer are slips
ENCODING_COMMENT = "a guess, as the file is not UTF-8: check the accented letters"
FLAGS = ("isolate", "outside_files")  # settings to keep as given


@dataclass(frozen=True)
class SourceTable:
    """A table, and the settings for reading its files.

    - `source`: the settings for reading it.
    - `csv`: the ``csv:`` settings that differ from their defaults.
    - `comments`: a comment for ``format`` and for each key of `csv`.
    - `codes`: the columns of digits with leading zeros, which the table has as text, and an example of each.
    - `blanks`: the number of blank cells in the columns of numbers that have any.
    - `lists`: the lists of further columns, which `table` lacks.
    """

    table: pa.Table
    source: TableSource
    files: Sequence[SourceFile]
    csv: Mapping[str, Any] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    blanks: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Lists] = field(default_factory=dict)

    @property
    def has_header(self) -> bool:
        """True if the files have a header."""
        return "names" not in self.csv


def read_source_table(path: str, base: TableSource | None = None) -> SourceTable:
    """Read a table, detecting its format.

    - `path`: a file, glob, folder or URL.
    - `base`: settings given by the user; the others are detected.

    Raise DataError if it does not exist, or cannot be read in any known format.
    """
    given = base.model_dump(include={"format", "csv", *FLAGS}, exclude_unset=True) if base else {}
    stated, comment = (given["format"], "") if "format" in given else _format(path)
    _require_path(path)
    flags = {name: given[name] for name in FLAGS if name in given}
    files = find_files(TableSource.model_validate({"path": path, "format": stated, **flags}))
    csv = {name: list(value) if isinstance(value, tuple) else value for name, value in given.get("csv", {}).items()}
    comments = {"format": comment} if comment else {}
    attempt = _Attempt(path, stated, files, dict(csv), comments, flags, frozenset(csv))
    if files[0].format != "csv":
        loaded = read_arrow(attempt.source(), files=files)
        return replace(attempt.result(loaded.table), lists=_read_lists(attempt.source(), files, loaded))
    attempt.look_at_head(files[0])
    table = attempt.read()
    if attempt.look_at_texts(table):
        table = attempt.read()
    if attempt.look_at_numbers(table):
        table = attempt.read()
    return attempt.result(table)


def _read_lists(source: TableSource, files: Sequence[SourceFile], loaded: LoadedTable) -> Mapping[str, Lists]:
    """Return the lists of the columns that were dropped because no op reads them."""
    notes = [note for note in loaded.notes if isinstance(note, WarningNote)]
    names = [note.column for note in notes if note.fate == UNREAD_LISTS]
    if not names:
        return {}
    table = read_arrow(source.read_as(lists=names), names, files=files).table
    return {name: Lists.of(table.column(name)) for name in names}


def _require_path(path: str) -> None:
    """Raise ConfigError if the table is not stored in files that `find_files` lists."""
    if path.partition("://")[0] in (*DATABASES, "postgres"):
        fix = "write source: {sql: SELECT ..., uri: ${DATABASE_URI}} into a configuration by hand; or write the result "
        what = "init reads files, not databases"
        raise ConfigError(what, where=database_name(path), fix=f"{fix}of the query to a Parquet file, and take that")


def _format(path: str) -> tuple[str, str]:
    """Return the value of ``format:`` and a comment; ``auto`` if the file name has a known suffix."""
    if "://" in path or not Path(path).expanduser().is_file() or format_of(path) or member_format(path):
        return "auto", ""
    with open(Path(path).expanduser(), "rb") as raw:
        head = raw.read(64).lstrip()
    found = next((name for magic, name in MAGIC.items() if head.startswith(magic)), "csv")
    return found, "detected from the contents, as the file name has no known suffix"


@dataclass
class _Attempt:
    """Settings, extended until the files can be read."""

    path: str
    format: str
    files: Sequence[SourceFile]
    csv: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    given: frozenset[str] = frozenset()  # the settings given by the user
    codes: dict[str, str] = field(default_factory=dict)
    blanks: dict[str, int] = field(default_factory=dict)

    def source(self) -> TableSource:
        schema = dict.fromkeys(self.codes, "categorical")
        settings = {"path": self.path, "format": self.format, "csv": self.csv, "schema": schema}
        return TableSource.model_validate({**settings, **self.flags})

    def set(self, setting: str, value: Any, comment: str) -> None:
        if setting not in self.given:
            self.csv[setting], self.comments[setting] = value, comment

    def result(self, table: pa.Table) -> SourceTable:
        return SourceTable(table, self.source(), self.files, self.csv, self.comments, self.codes, self.blanks)

    def look_at_head(self, file: SourceFile) -> None:
        """Detect the encoding, the delimiter and the header."""
        stated = CsvSettings.model_validate(self.csv)
        dialect = detect_dialect(file, stated)
        if lead := dialect.lead(stated):
            for setting, value in lead.items():
                self.set(setting, value, "the first lines of the file are not part of the table")
            stated = CsvSettings.model_validate(self.csv)
            dialect = detect_dialect(file, stated)
        if dialect.encoding != stated.encoding:
            self.set("encoding", dialect.encoding, ENCODING_COMMENT if dialect.encoding in GUESSES.values() else "")
        if dialect.delimiter != ",":
            self.set("delimiter", dialect.delimiter, "runs of blanks" if dialect.delimiter == WHITESPACE else "")
        if not dialect.has_header:
            names = [f"c{i}" for i in range(1, dialect.width + 1)]
            self.set("names", names, "the file has no header: replace these names, in column order")

    def read(self) -> pa.Table:
        """Return the table; if it cannot be read with the current settings, extend them and retry."""
        while True:
            try:
                loaded = read_arrow(self.source(), files=self.files)
            except FieldCountError:
                if "bad_rows" in self.csv:
                    raise
                self.set("bad_rows", "skip", "rows with another number of fields are skipped")
                continue
            except EncodingError as error:
                if "encoding" in self.given:
                    raise
                self.set("encoding", next_encoding(error), ENCODING_COMMENT)
                continue
            if n := loaded.n_skipped:
                self.comments["bad_rows"] = f"skips {n} {'row' if n == 1 else 'rows'} with another number of fields"
            return loaded.table

    def look_at_texts(self, table: pa.Table) -> bool:
        """Detect null marks and decimal commas; return whether the files must be read again."""
        texts = {name: column for name, column in collect_facts(table).items() if column.holds == "text"}
        commas = [name for name, column in texts.items() if _has_decimal_commas(column.texts)]
        if commas and self.csv.get("delimiter"):
            self.set("decimal", ",", f"decimal comma, as in {', '.join(commas[:3])}")
        marked = {name: marks for name, column in texts.items() if (marks := find_null_marks(column.texts))}
        if marked:
            marks = sorted(set(chain.from_iterable(marked.values())))
            cells = 0
            for name in marked:
                counted = zip(texts[name].texts, texts[name].counts, strict=True)
                cells += sum(int(n) for text, n in counted if text in marks)
            among = ", ".join(list(marked)[:4]) + (f" and {len(marked) - 4} more" if len(marked) > 4 else "")
            self.set("null_values", marks, f"marks {cells:,} missing values in {among}")
        return bool({"null_values", "decimal"} & self.csv.keys() - self.given)

    def look_at_numbers(self, table: pa.Table) -> bool:
        """Find leading zeros and blank cells in columns of numbers; return whether the files must be read again.

        The reader converts blanks to null, and ``007`` to 7.
        """
        numbers = [field.name for field in table.schema if pa.types.is_integer(field.type) or _is_null(table, field)]
        if (
            not numbers
            or any(f.format != "csv" for f in self.files)
            or sum(f.size for f in self.files) > MAX_BYTES_TWICE
        ):
            return False
        read = [found for file in self.files if (found := read_texts(file, numbers, self.source())) is not None]
        for name in numbers:
            chunks = chain.from_iterable(table[name].chunks for table in read if name in table.column_names)
            cells = pa.chunked_array(list(chunks), pa.string())
            if n := pc.sum(pc.utf8_is_space(cells)).as_py():
                self.blanks[name] = n
            if pa.types.is_integer(table.schema.field(name).type) and (example := find_leading_zeros(cells)):
                self.codes[name] = example
        return bool(self.codes)


def _is_null(table: pa.Table, column: pa.Field) -> bool:
    """Return whether a column has floating-point numbers and nulls."""
    return bool(pa.types.is_floating(column.type) and table[column.name].null_count)


def find_leading_zeros(cells: pa.ChunkedArray) -> str:
    """Return an example of codes with leading zeros, such as ``007``; "" if the texts are numbers.

    Codes have digits only. Those of one length have a leading zero anywhere; of others it is frequent.
    """
    cells = pc.utf8_trim_whitespace(cells.drop_null())
    cells = cells.filter(pc.greater(pc.utf8_length(cells), 0))
    leading = cells.filter(pc.match_substring_regex(cells, "^0[0-9]"))
    if not len(leading) or not pc.all(pc.match_substring_regex(cells, "^[0-9]+$")).as_py():
        return ""
    is_wide = len(pc.unique(pc.utf8_length(cells))) == 1 or len(leading) >= MIN_LEADING_ZEROS * len(cells)
    return str(leading[0]) if is_wide else ""


def find_null_marks(texts: list[str]) -> list[str]:
    """Return the texts of a column that mark nulls: ``?``, or null words such as NA if all others are numbers."""
    if "?" in texts:
        return ["?"]
    others = [text for text in texts if not is_number(text)]
    return others if others and all(map(is_missing, others)) and len(others) < len(texts) else []


def _has_decimal_commas(texts: list[str]) -> bool:
    with_comma = [text for text in texts if text.count(",") == 1]
    return bool(with_comma) and all(is_number(text.replace(",", ".")) and "." not in text for text in texts)
