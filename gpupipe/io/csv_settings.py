"""Settings of CSV files, ``source.csv:``. Imports no reader library."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpupipe.names import duplicates, enumerate_names
from gpupipe.settings import Settings

WHITESPACE = r"\s+"
"""``delimiter`` of files whose fields are separated by runs of spaces and tabs."""


class CsvSettings(Settings):
    """CSV dialect of the files."""

    delimiter: str | None = Field(
        None,
        json_schema_extra={"pattern": r"^(?:.|\\s\+)$"},
        description=r"Field delimiter: one character, or \s+ for runs of spaces and tabs. Default: detected among "
        "comma, semicolon, tab and |.",
    )
    names: tuple[str, ...] | None = Field(
        None, min_length=1, description="Column names of files without a header. Default: the first row is the header."
    )
    skip_rows: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Number of lines to skip before the header, or before the rows if `names` is set.",
    )
    comment: str | None = Field(
        None,
        min_length=1,
        max_length=5,
        description="Prefix of lines to ignore, such as #, before the header and between rows. Default: none.",
    )
    null_values: tuple[str, ...] = Field(
        (), description='Strings read as missing values, in addition to the built-in ones such as "", NA and null.'
    )
    encoding: str = Field(
        "utf8", description="Text encoding: any that Python supports, such as utf8, latin-1, cp1252 or utf-16."
    )
    strip: bool = Field(
        True,
        description="Strip leading and trailing whitespace from texts; in files of other formats and in frames too, as "
        "a text has one meaning.",
    )
    bad_rows: Literal["error", "skip"] = Field(
        "error",
        description="Action on a row whose number of fields differs from the header's: error stops the run, skip drops "
        "the row with a warning.",
    )
    decimal: str = Field(".", min_length=1, max_length=1, description="Decimal separator of numbers, one character.")
    thousands: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="Thousands separator of numbers, one character, as in 1.234,56 or 1'234. Default: none.",
    )
    quote: str | None = Field(
        '"', min_length=1, max_length=1, description="Quote character around fields; null disables quoting."
    )

    @field_validator("delimiter")
    @classmethod
    def _is_one_character_or_whitespace(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and len(delimiter) != 1 and delimiter != WHITESPACE:
            raise ValueError(f"expected one character, or {WHITESPACE} for runs of spaces and tabs; got {delimiter!r}")
        return delimiter

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        try:
            "".encode(encoding)  # also rejects codecs that are not text encodings (hex, zip)
        except LookupError:
            raise ValueError(f"unknown encoding {encoding!r}; use one such as utf8, latin-1, cp1252, utf-16") from None
        return encoding

    @field_validator("comment")
    @classmethod
    def _is_a_prefix(cls, comment: str | None) -> str | None:
        if comment is not None and (not comment.isprintable() or comment != comment.strip()):
            raise ValueError(f"expected 1 to 5 printable characters without blanks; got {comment!r}")
        return comment

    @field_validator("names")
    @classmethod
    def _are_distinct(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if twice := duplicates(names or ()):
            raise ValueError(f"duplicate column names: {enumerate_names(twice)}")
        return names

    @model_validator(mode="after")
    def _separators_are_distinct(self) -> CsvSettings:
        if self.comment is not None and self.comment[0] in (self.delimiter, self.quote):
            raise ValueError(f"comment: {self.comment!r} starts with the delimiter or the quote character")
        blanks = (" ", "\t") if self.delimiter == WHITESPACE else ()
        if self.thousands is not None and self.thousands in (self.decimal, self.delimiter, self.quote, *blanks):
            raise ValueError(
                f"thousands: {self.thousands!r} is already the decimal separator, the delimiter or the quote character"
            )
        return self
