"""Notes on a file that is read in chunks: the same notes, in the same order, as of reading it at once."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.stray_values import TextProfile, report_stray_values
from gpupipe.io.missing_values import TEXT, clean_texts
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import plain_table, report_missing


class FileNotes:
    """Notes on a file, collected chunk by chunk.

    Attributes
    ----------
    about_file : Notes
        What its reader has to say.
    about_values : Notes
        What is said when its columns are made plain.
    missing : dict of str to set of str
        For each plain column, the texts that are read as missing.
    text_profiles : dict of str to TextProfile
        What the columns of text of a CSV file are like.
    n_rows : int
    """

    def __init__(self) -> None:
        self.about_file, self.about_values = Notes(), Notes()
        self.missing: dict[str, set[str]] = {}
        self.text_profiles: dict[str, TextProfile] = {}
        self.n_rows = 0

    def include(self, other: FileNotes) -> None:
        """Add the notes on a later chunk."""
        self.about_file.include(other.about_file)
        self.about_values.include(other.about_values)
        for name, texts in other.missing.items():
            self.missing.setdefault(name, set()).update(texts)
        for name, profile in other.text_profiles.items():
            self.text_profiles[name] = self.text_profiles[name] | profile if name in self.text_profiles else profile
        self.n_rows += other.n_rows

    def report(self, file: SourceFile, notes: Notes) -> None:
        """Report all notes in the order of reading the file at once."""
        _say_by_column(self.about_file, self.missing, notes)
        report_stray_values(
            {name: self.text_profiles[name] for name in self.missing if name in self.text_profiles}, notes
        )
        _say_by_column(self.about_values, self.missing, notes)
        notes.include(self.about_file)  # the rows that were left out
        for name, texts in self.missing.items():
            report_missing(name, sorted(texts), notes)
        if not self.n_rows:
            notes.say(f"no rows in {mask(file.path)}")


def clean_chunk(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: FileNotes) -> pa.Table:
    """Return a chunk's rows as a plain table; texts that mean 'missing' become null (in CSV they are already)."""
    table = plain_table(table, file, wanted, notes.about_values)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        found = notes.missing.setdefault(name, set())
        if column.type == TEXT and file.format != "csv":
            columns[name], gone = clean_texts(column)
            found.update(gone)
    return pa.table(columns)


def _say_by_column(found: Notes, names: Iterable[str], notes: Notes) -> None:
    """Add notes in the order of their columns, not in that of the chunks."""
    order = {name: i for i, name in enumerate(names)}
    for text, column in sorted(found.columns().items(), key=lambda item: order.get(item[1], -1)):
        notes.say(text, column)
