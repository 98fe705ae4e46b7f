"""Location of errors in JSON lines files, by parsing the lines again one by one."""

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
AS_UTF8 = "write the file in UTF-8, the encoding of JSON lines"
ONE_A_LINE = "write one JSON object per line, for example with jq -c '.[]'"


def find_fault(file: SourceFile) -> DataError | None:
    """Return the error of the first line that is not an object, or whose value types differ from earlier lines.

    Return None if no line is at fault.
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
        return DataError(f"line {number:,} is nested too deeply", fix="remove the nested values")
    except json.JSONDecodeError as error:
        near = error.doc[max(0, error.pos - SHOWN // 2) : error.pos + SHOWN // 2].strip()
        return DataError(f"line {number:,} is not valid JSON: {error.msg} near {near!r}", fix=f"fix it; {ONE_A_LINE}")
    if not isinstance(found, _Object):
        what = f"line {number:,}: expected a JSON object, found {_article(_kind(found))}"
        return DataError(what, fix=ONE_A_LINE)
    return _fault_of_values(found.pairs, number, kinds)


def _fault_of_values(pairs: list[tuple[str, Any]], number: int, kinds: dict[str, tuple[str, int]]) -> DataError | None:
    names = [name for name, _ in pairs]
    twice = frozenset(duplicates(names))
    for name, value in pairs:
        if name in twice:
            return DataError(f"line {number:,} has the key {name!r} twice", fix="rename or remove one of them")
        if not (_is_text(name) and _is_text(value)):
            what = f"line {number:,} has an unpaired surrogate in {name!a}"
            return DataError(what, fix=AS_UTF8)
        if isinstance(value, _OutOfRange):
            what = f"column {name!r}: {_shown(value.text)} in line {number:,} is outside the float64 range"
            return SchemaError(what, fix="write the value as null, or the column as text")
        kind = _kind(value)
        if kind == "null":
            continue
        before, where = kinds.setdefault(name, (kind, number))
        if kind != before:
            what = (
                f"column {name!r} has both {before} and {kind} values: {_shown(value)} in line {number:,}, "
                f"{_article(before)} in line {where:,}"
            )
            return SchemaError(what, fix="write each column with one type, for example text")
    return None


class _Object:
    """Key-value pairs of a JSON object, in order, including duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


class _OutOfRange:
    """A number outside the float64 range."""

    def __init__(self, text: str) -> None:
        self.text = text


def _float(text: str) -> float | _OutOfRange:
    value = float(text)
    return _OutOfRange(text) if math.isinf(value) else value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    known = {_Object: "object", list: "array", str: "string"}
    return known.get(type(value), "number")


def _is_text(value: Any) -> bool:
    """Return True if a value can be encoded as UTF-8; an unpaired surrogate cannot."""
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


def _article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "ao" else f"a {kind}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float) else _article(_kind(value))
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
