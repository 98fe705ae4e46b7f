"""A table of unknown format: its format, delimiter, header, encoding and marks for missing values are detected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import EncodingError, FieldCountError
from gpupipe.io.csv_settings import WHITESPACE, CsvSettings
from gpupipe.io.files import SourceFile, find_files
from gpupipe.io.formats.csv.dialect import detect_dialect, is_missing
from gpupipe.io.formats.csv.encoding import GUESSES, next_encoding
from gpupipe.io.formats.registry import format_of
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.starter.facts import collect_facts
from gpupipe.units import is_number

MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"ARROW1": "arrow", b"{": "jsonl"}
ENCODING_REMARK = "it is not UTF-8: look whether the accents are right"


@dataclass(frozen=True)
class SourceTable:
    """A table, and the settings that read its files.

    Attributes
    ----------
    table : pyarrow.Table
    source : TableSource
        The settings that read it.
    files : sequence of SourceFile
    csv : mapping of str to value
        The ``csv:`` settings that differ from their defaults.
    remarks : mapping of str to str
        A comment for ``format`` and for each key of `csv`.
    """

    table: pa.Table
    source: TableSource
    files: Sequence[SourceFile]
    csv: Mapping[str, Any] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_header(self) -> bool:
        """Whether the files name their columns."""
        return "names" not in self.csv


def read_source_table(path: str, base: TableSource | None = None) -> SourceTable:
    """Read a table and detect its format.

    Parameters
    ----------
    path : str
        A file, glob, folder or URL.
    base : TableSource, optional
        Settings of the user, taken as they are; the others are detected.

    Raises
    ------
    DataError
        If it is absent, or no known format reads it.
    """
    given = base.model_dump(include={"format", "csv", "isolate"}, exclude_unset=True) if base else {}
    stated, remark = (given["format"], "") if "format" in given else _format(path)
    files = find_files(TableSource.model_validate({"path": path, "format": stated}))
    csv = {name: list(value) if isinstance(value, tuple) else value for name, value in given.get("csv", {}).items()}
    remarks = {"format": remark} if remark else {}
    attempt = _Attempt(path, stated, files, dict(csv), remarks, given.get("isolate", False), frozenset(csv))
    if files[0].format != "csv":
        return attempt.result(read_arrow(attempt.source(), files=files).table)
    attempt.look_at_head(files[0])
    table = attempt.read()
    if attempt.look_at_texts(table):
        table = attempt.read()
    return attempt.result(table)


def _format(path: str) -> tuple[str, str]:
    """Return what ``format:`` has to say, and why; ``auto`` where the name of the file says enough."""
    if "://" in path or not Path(path).expanduser().is_file() or format_of(path):
        return "auto", ""
    with open(Path(path).expanduser(), "rb") as raw:
        head = raw.read(64).lstrip()
    found = next((name for magic, name in MAGIC.items() if head.startswith(magic)), "csv")
    return found, "the name of the file does not say so"


@dataclass
class _Attempt:
    """Settings that grow until the files can be read."""

    path: str
    format: str
    files: Sequence[SourceFile]
    csv: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    isolate: bool = False
    given: frozenset[str] = frozenset()  # the settings that the user has stated

    def source(self) -> TableSource:
        settings = {"path": self.path, "format": self.format, "csv": self.csv}
        return TableSource.model_validate(settings | ({"isolate": True} if self.isolate else {}))

    def say(self, setting: str, value: Any, remark: str) -> None:
        if setting not in self.given:
            self.csv[setting], self.remarks[setting] = value, remark

    def result(self, table: pa.Table) -> SourceTable:
        return SourceTable(table, self.source(), self.files, self.csv, self.remarks)

    def look_at_head(self, file: SourceFile) -> None:
        """Find the encoding, the delimiter, and whether there is a header."""
        stated = CsvSettings.model_validate(self.csv)
        dialect = detect_dialect(file, stated)
        if dialect.encoding != stated.encoding:
            self.say("encoding", dialect.encoding, ENCODING_REMARK if dialect.encoding in GUESSES.values() else "")
        if dialect.delimiter != ",":
            self.say("delimiter", dialect.delimiter, "runs of blanks" if dialect.delimiter == WHITESPACE else "")
        if not dialect.has_header:
            names = [f"c{i}" for i in range(1, dialect.width + 1)]
            self.say("names", names, "the file has no header: put names here, in the order of its columns")

    def read(self) -> pa.Table:
        """Read the table; where the settings do not do, add one and try again."""
        while True:
            try:
                loaded = read_arrow(self.source(), files=self.files)
            except FieldCountError:
                if "bad_rows" in self.csv:
                    raise
                self.say("bad_rows", "skip", "rows with another number of fields are left out")
                continue
            except EncodingError as error:
                if "encoding" in self.given:
                    raise
                self.say("encoding", next_encoding(error), ENCODING_REMARK)
                continue
            if n := loaded.n_skipped:
                self.remarks["bad_rows"] = f"leaves out {n} {'row' if n == 1 else 'rows'} with another number of fields"
            return loaded.table

    def look_at_texts(self, table: pa.Table) -> bool:
        """Find marks for missing values and decimal commas; return whether the files must be read again."""
        texts = {name: column for name, column in collect_facts(table).items() if column.holds == "text"}
        commas = [name for name, column in texts.items() if _has_decimal_commas(column.texts)]
        if commas and self.csv.get("delimiter"):
            self.say("decimal", ",", f"as in {', '.join(commas[:3])}")
        marked = {name: marks for name, column in texts.items() if (marks := find_null_marks(column.texts))}
        if marked:
            marks = sorted({mark for found in marked.values() for mark in found})
            cells = sum(
                int(n)
                for name in marked
                for text, n in zip(texts[name].texts, texts[name].counts, strict=True)
                if text in marks
            )
            among = ", ".join(list(marked)[:4]) + (f" and {len(marked) - 4} more" if len(marked) > 4 else "")
            self.say("null_values", marks, f"{cells:,} missing values are written so, in {among}")
        return bool({"null_values", "decimal"} & self.csv.keys() - self.given)


def find_null_marks(texts: list[str]) -> list[str]:
    """Return those of a column's texts that stand for missing values: ``?`` anywhere, marks and words among numbers."""
    if "?" in texts:
        return ["?"]
    others = [text for text in texts if not is_number(text)]
    return others if others and all(map(is_missing, others)) and len(others) < len(texts) else []


def _has_decimal_commas(texts: list[str]) -> bool:
    with_comma = [text for text in texts if text.count(",") == 1]
    return bool(with_comma) and all(is_number(text.replace(",", ".")) and "." not in text for text in texts)
