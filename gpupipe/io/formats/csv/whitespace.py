r"""Files with fields separated by runs of spaces and tabs: ``delimiter: "\s+"``.

Arrow's CSV parser (checked: pyarrow 26.0) supports only one character as the delimiter. So the bytes are rewritten
before parsing: each run of spaces and tabs becomes one tab, and those at the ends of a line are removed. Line breaks
and quoted text are unchanged.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.formats.csv.rewritten_rows import Spans, quoted_spans

TAB, NEWLINE, RETURN, BLANK = b"\t\n\r "
OTHER_DELIMITERS = b",;|"


def parser_delimiter(delimiter: str) -> str:
    r"""Return the delimiter to pass to Arrow's parser.

    >>> parser_delimiter(";"), parser_delimiter(r"\s+")
    (';', '\t')
    """
    return "\t" if delimiter == WHITESPACE else delimiter


def insert_tabs(rows: bytes, quote: str | None) -> bytes:
    r"""Return whole rows of text with one tab between fields.

    `rows` is UTF-8 text of complete rows; `quote` opens a quoted field only at the start of a field.

    Examples
    --------
    >>> insert_tabs(b'  1  "a b"\t2 \n', '"')
    b'1\t"a b"\t2\n'
    """
    return collapse_blanks(rows, quoted_spans(rows, quote, WHITESPACE))


def is_blank_separated(text: str, quote: str | None) -> bool:
    """Return True if rows look like fields separated by runs of spaces.

    All rows must have the same number of fields, at least two, and none of the delimiters ``, ; |`` outside quotes. If
    there are tabs, every row must also have a run of at least two spaces or tabs; otherwise the delimiter is the tab.
    """
    raw = text.encode()
    rows = [line for line in insert_tabs(raw, quote).splitlines() if line]
    bare = b"".join(_outside(raw, quoted_spans(raw, quote, WHITESPACE)))
    if len(rows) < 2 or any(mark in bare for mark in OTHER_DELIMITERS):
        return False
    lines = [line for line in bare.splitlines() if line.strip()]
    if TAB in bare and not all(re.search(rb"[ \t]{2}", line.strip()) for line in lines):
        return False
    widths = {_width(row, quote) for row in rows}
    return len(widths) == 1 and widths.pop() > 1


def _width(row: bytes, quote: str | None) -> int:
    return sum(part.count(b"\t") for part in _outside(row, quoted_spans(row, quote, WHITESPACE))) + 1


def _outside(rows: bytes, spans: Spans) -> list[bytes]:
    """Return the unquoted parts."""
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(rows)]
    return [rows[start:end] for start, end in zip(starts, ends, strict=True)]


def collapse_blanks(rows: bytes, spans: Spans) -> bytes:
    """Return rows with one tab for each run of blanks outside `spans`, and none at the ends of lines."""
    if not rows:
        return rows
    cells = np.frombuffer(rows, np.uint8)
    blank = (cells == BLANK) | (cells == TAB)
    if spans:
        blank &= ~_inside(len(cells), spans)
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1  # starts and ends of runs, alternating
    if blank[0]:
        edges = np.concatenate([[0], edges])
    if blank[-1]:
        edges = np.append(edges, len(cells))
    starts, ends = edges[0::2], edges[1::2]
    between = ~(_is_break(cells, starts - 1) | _is_break(cells, ends))
    tabs = starts[between]
    made = cells.copy()
    made[tabs] = TAB
    keep = ~blank
    keep[tabs] = True
    return bytes(made[keep].data)


def _inside(n: int, spans: Spans) -> npt.NDArray[np.bool_]:
    edges = np.zeros(n + 1, np.int8)
    starts, ends = np.array(spans).T
    edges[starts], edges[ends] = 1, -1
    return np.cumsum(edges[:-1], dtype=np.int8).view(bool)


def _is_break(cells: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions that are line breaks or outside the bytes."""
    outside = (places < 0) | (places >= len(cells))
    found = cells[np.where(outside, 0, places)]
    is_break: npt.NDArray[np.bool_] = outside | (found == NEWLINE) | (found == RETURN)
    return is_break
