"""Fast acceptance of the usual values that satisfy all rules of their column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from types import NoneType
from typing import Any

from gpupipe.rules.labels import integer_bounds, to_level, to_numbers
from gpupipe.rules.regex import TextMatcher
from gpupipe.rules.ruled_cell import LEVELS, CellReader
from gpupipe.rules.settings import ColumnRules, to_micros
from gpupipe.table.cell_encoders import UnfitCell
from gpupipe.table.level_text import NULL_TEXTS
from gpupipe.table.plain_values import form_of
from gpupipe.table.schema import BOOLEAN_WORDS, LARGEST, NAT, Kind

AcceptValue = Callable[[Any], bool]
Acceptance = dict[type, AcceptValue]
LARGEST_INT = 2.0**63 - 1024  # the largest float64 that is an int64


def is_accepted(accepts: Acceptance, value: Any) -> bool:
    """Return whether a value of any type is accepted: by its type, else by its plain form."""
    kind: Any = type(value)
    accept = accepts.get(kind)
    if accept is None:
        form = form_of(kind)
        if form is None:
            return False
        if not form.is_time:
            value = form.read(value)
        elif datetime in accepts and form.read(value) == NAT:
            value = None
        accept = accepts.get(datetime if form.is_time and value is not None else type(value))
    return accept is not None and accept(value)


def acceptance(kind: Kind, rules: Sequence[ColumnRules], reader: CellReader) -> Acceptance:
    """Return functions by plain type of value: if one returns True, the value satisfies all `rules` except ``unique``.

    False, and a type without function, mean that the value must be checked in full. See `is_accepted`.
    """
    if not all(each.is_for(kind) for each in rules):
        return {}
    if kind == "numeric":
        found = _numbers(rules, reader)
    elif kind == "datetime":
        found = _times(rules, reader)
    elif kind == "boolean":
        found = _flags(rules, reader)
    else:
        found = _texts(kind, rules, reader)
    if all(each.nulls for each in rules):
        found[NoneType] = _accept_all
    return found


def _accept_all(value: Any) -> bool:
    return True


def _numbers(rules: Sequence[ColumnRules], reader: CellReader) -> Acceptance:
    allow_nulls = all(each.nulls for each in rules)
    low, high = (-math.inf, math.inf) if allow_nulls else (-LARGEST, LARGEST)
    whole, allowed = False, None
    for each in rules:
        bounds = integer_bounds(each.dtype)
        whole = whole or bounds is not None
        start, end = each.range or (None, None)
        for first in (start, bounds and bounds[0]):
            low = max(low, first) if isinstance(first, float) else low
        for last in (end, bounds and bounds[1]):
            high = min(high, last) if isinstance(last, float) else high
        if each.set is not None:
            allowed = to_numbers(each.set) if allowed is None else allowed & to_numbers(each.set)
    least, most = max(low, -LARGEST_INT), min(high, LARGEST_INT)
    if allowed is not None:
        kept = frozenset(v for v in allowed if least <= v <= most and (v.is_integer() or not whole))
        accept_float = accept_int = kept.__contains__
    else:
        accept_float = _accept_whole(low, high) if whole else _accept_between(low, high)
        accept_int = _accept_between(least, most)
    accept_text = _accept_content(reader, accept_float)
    return {float: accept_float, int: accept_int, str: accept_text}


def _accept_between(low: float, high: float) -> AcceptValue:
    return lambda value: low <= value <= high


def _accept_whole(low: float, high: float) -> AcceptValue:
    return lambda value: low <= value <= high and value.is_integer()


def _times(rules: Sequence[ColumnRules], reader: CellReader) -> Acceptance:
    bounds = [each.range for each in rules if each.range is not None]
    low = max((to_micros(first) for first, _ in bounds if isinstance(first, str)), default=-(2**63))
    high = min((to_micros(last) for _, last in bounds if isinstance(last, str)), default=2**63)
    return dict.fromkeys((str, datetime, date, int), _accept_content(reader, lambda micros: low <= micros <= high))


def _flags(rules: Sequence[ColumnRules], reader: CellReader) -> Acceptance:
    allowed = set(LEVELS)
    for each in rules:
        if each.set is not None:
            allowed &= {to_level(label, "boolean") for label in each.set}
    accept = _accept_content(reader, allowed.__contains__)
    flags = frozenset(LEVELS.index(level) for level in allowed)
    words = frozenset(word for word, flag in BOOLEAN_WORDS.items() if flag in flags)
    return {bool: flags.__contains__, str: words.__contains__, int: accept, float: accept}


def _texts(kind: Kind, rules: Sequence[ColumnRules], reader: CellReader) -> Acceptance:
    sets = [frozenset(to_level(label, kind) for label in each.set) for each in rules if each.set is not None]
    matchers = [TextMatcher(each.regex) for each in rules if each.regex is not None]
    matches_all = _matches_all(matchers)
    by_content = _accept_content(reader, matches_all)
    accept_text = _accept_text(matches_all, by_content)
    if sets:
        labels = frozenset(filter(_accept_content(reader, matches_all), frozenset.intersection(*sets)))
        accept_text = labels.__contains__
        by_content = _accept_content(reader, accept_text)
    return {str: accept_text, int: by_content, float: by_content, bool: by_content}


def _accept_text(matches: AcceptValue, by_content: AcceptValue) -> AcceptValue:
    def accept_text(text: str) -> bool:
        is_plain = text.isascii() and text not in NULL_TEXTS and text.strip() == text
        return (is_plain and matches(text)) or by_content(text)

    return accept_text


def _matches_all(matchers: Sequence[TextMatcher]) -> AcceptValue:
    return lambda text: all(matcher.accepts(text) for matcher in matchers)


def _accept_content(reader: CellReader, accept: AcceptValue) -> AcceptValue:
    """Return the function that reads a value and accepts its content; nulls are left to the full check."""
    content = reader.content

    def accept_value(value: Any) -> bool:
        try:
            found = content(value)
        except UnfitCell:
            return False
        return found is not None and accept(found)

    return accept_value
