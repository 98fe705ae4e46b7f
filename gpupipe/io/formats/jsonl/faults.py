"""Errors of JSON lines files, located by reading the lines again, one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from gpupipe.errors import DataError, EncodingError, SchemaError
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.encoding import detect_bom_encoding
from gpupipe.names import duplicates
from gpupipe.units import MIB

BLOCK_BYTES = MIB
SHOWN = 60
AS_UTF8 = "write the file as UTF-8, as JSON lines are"
ONE_A_LINE = "write one object per line: {...} newline {...}; for example with jq -c '.[]'"


def find_fault(file: SourceFile) -> DataError | None:
    """Return the error of the first line that is no object, or has a value of another type than lines before it.

    None: each of them is fine by itself.
    """
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in _lines(file):
        if number == 1 and (marked := detect_bom_encoding(line)):
            what = f"the text is {marked}, not utf8"
            return EncodingError(what, "utf8", marked, where=mask(file.path), fix=AS_UTF8)
        if line.strip() and (error := _fault(line, number, kinds)) is not None:
            error.place(mask(file.path))
            return error
    return None


def _lines(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number, from 1."""
    number, rest = 1, b""
    with open_file(file, unpack=True) as stream:
        while raw := bytes(stream.read(BLOCK_BYTES)):
            *lines, rest = (rest + raw).split(b"\n")
            yield from enumerate(lines, number)
            number += len(lines)
    yield number, rest


def _fault(line: bytes, number: int, kinds: dict[str, tuple[str, int]]) -> DataError | None:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        found = json.loads(line.decode(), object_pairs_hook=_Object, parse_float=_float)
    except UnicodeDecodeError as error:
        what = f"line {number:,} is not utf8: byte 0x{line[error.start]:02x} at its offset {error.start:,}"
        return EncodingError(what, "utf8", fix=AS_UTF8)
    except RecursionError:
        return DataError(f"line {number:,} is nested too deeply", fix="leave the nested values out")
    except json.JSONDecodeError as error:
        near = error.doc[max(0, error.pos - SHOWN // 2) : error.pos + SHOWN // 2].strip()
        return DataError(f"line {number:,} is no JSON: {error.msg} in {near!r}", fix=f"correct the line; {ONE_A_LINE}")
    if not isinstance(found, _Object):
        what = f"line {number:,} is no JSON object but {_article(_kind(found))}"
        return DataError(what, fix=ONE_A_LINE)
    return _fault_of_values(found.pairs, number, kinds)


def _fault_of_values(pairs: list[tuple[str, Any]], number: int, kinds: dict[str, tuple[str, int]]) -> DataError | None:
    names = [name for name, _ in pairs]
    twice = frozenset(duplicates(names))
    for name, value in pairs:
        if name in twice:
            return DataError(f"line {number:,} has {name!r} more than once", fix="rename one of them, or leave it out")
        if not (_is_text(name) and _is_text(value)):
            what = f"line {number:,} has half of a surrogate pair in {name!a}: that is no character"
            return DataError(what, fix=AS_UTF8)
        if isinstance(value, _Beyond):
            what = f"column {name!r} holds {_shown(value.text)} in line {number:,}, beyond float64"
            return SchemaError(what, fix="write it as null, or the column as text")
        kind = _kind(value)
        if kind == "null":
            continue
        before, where = kinds.setdefault(name, (kind, number))
        if kind != before:
            what = (
                f"column {name!r} holds both {before} and {kind} values: {_shown(value)} in line {number:,}, "
                f"{_article(before)} in line {where:,}"
            )
            return SchemaError(what, fix="write the values of a column in one type, for example as text")
    return None


class _Object:
    """The names and values of an object, in order, names that are there twice too."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


class _Beyond:
    """A number that no float64 is."""

    def __init__(self, text: str) -> None:
        self.text = text


def _float(text: str) -> float | _Beyond:
    value = float(text)
    return _Beyond(text) if math.isinf(value) else value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    known = {_Object: "object", list: "array", str: "string"}
    return known.get(type(value), "number")


def _is_text(value: Any) -> bool:
    """Whether a value could be written: an escaped half of a pair of UTF-16 could not."""
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


def _article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "ao" else f"a {kind}"


def _shown(value: Any) -> str:
    said = repr(value) if isinstance(value, str | int | float) else _article(_kind(value))
    return said if len(said) <= SHOWN else said[:SHOWN] + "..."
