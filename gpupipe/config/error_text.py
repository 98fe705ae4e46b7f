"""Messages for pydantic's errors, worded for a configuration file or for Python."""

from __future__ import annotations

import ast
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pydantic_core import ErrorDetails

from gpupipe.errors import did_you_mean
from gpupipe.io.in_memory import type_name

# pydantic error types that mean "expected X", with X; {braces} are filled from the error's context.
EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 4,300 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping (key: value)",
    "mapping_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "none_required": "nothing (null)",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "date_type": "a date (2024-12-31)",
    "date_parsing": "a date (2024-12-31)",
    "date_from_datetime_parsing": "a date (2024-12-31)",
    "datetime_type": "a time (2024-12-31T23:59:59)",
    "datetime_parsing": "a time (2024-12-31T23:59:59)",
    "datetime_from_date_parsing": "a time (2024-12-31T23:59:59)",
    "literal_error": "{expected}",
    "enum": "{expected}",
}


SCALARS = (str, int, float, dt.date, dt.time)


@dataclass(frozen=True)
class MessageWords:
    """Words for values in messages: YAML's or Python's.

    - `mapping`, `nothing`, `op`: words for a mapping and for no value, and an example of an op.
    - `truths`: words for false and true.
    - `expected`: replacements for entries of `EXPECTED`.
    """

    mapping: str
    nothing: str
    op: str
    truths: tuple[str, str]
    expected: Mapping[str, str] = field(default_factory=dict)


FILE = MessageWords("mapping", "nothing", "`- standardize: [age]`", ("false", "true"))
PYTHON = MessageWords(
    "dict",
    "None",
    '{"standardize": ["age"]}',
    ("False", "True"),
    dict.fromkeys(("bool_type", "bool_parsing"), "True or False")
    | dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a dict")
    | {"none_required": "None"},
)


def describe_value(value: Any, words: MessageWords = FILE) -> str:
    """Return a short description of a value."""
    if isinstance(value, Mapping):
        if not value:
            return f"an empty {words.mapping}"
        return f"a {words.mapping} with {', '.join(map(str, list(value)[:5]))}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return words.nothing
    if not isinstance(value, SCALARS):
        return type_name(value)
    text = words.truths[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def describe_python_value(value: Any) -> str:
    """Return a short description of a value passed from Python."""
    return describe_value(value, PYTHON)


def describe_expected(error: ErrorDetails, words: MessageWords = FILE) -> str:
    """Return what the error expected, or ``""`` if it is not of that kind."""
    limits = {key: _whole(limit) for key, limit in error.get("ctx", {}).items()}
    text = words.expected.get(error["type"]) or EXPECTED.get(error["type"], "")
    return text.format_map(limits)


def _whole(limit: object) -> object:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def explain(errors: list[ErrorDetails], words: MessageWords = FILE) -> str:
    """Return one sentence about one value; a union reports one error for each of its members."""
    forms = list(dict.fromkeys(form for error in errors if (form := describe_expected(error, words))))
    others = list(dict.fromkeys(_other(error, words) for error in errors if not describe_expected(error, words)))
    if not forms:
        return "; ".join(others)
    if "a number" in forms and "a whole number" in forms:
        forms.remove("a whole number")
    value = errors[0]["input"]
    hint = _nearest(value, [error for error in errors if error["type"] in ("literal_error", "enum")])
    return "; ".join(
        filter(None, [f"expected {' or '.join(forms)}, got {describe_value(value, words)}", hint, *others])
    )


def _other(error: ErrorDetails, words: MessageWords) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            key, known = str(error["loc"][-1]), context.get("known", ())
            if homes := context.get("homes"):
                return f"unknown key here; did you mean {' or '.join(homes)}?"
            return "unknown key; " + (did_you_mean(key, known) or f"expected one of {', '.join(known)}")
        case "missing" | "union_tag_not_found":
            return "is required"
        case "union_tag_invalid":
            tags = context["expected_tags"]
            hint = did_you_mean(str(context["tag"]), [tag.strip("' ") for tag in tags.split(",")])
            return "; ".join(filter(None, [f"expected one of {tags}, got {context['tag']!r}", hint]))
        case "op_form":
            return f"expected one op, such as {words.op}{context['keys']}"
        case "value_error" | "assertion_error":
            lines = str(context.get("error") or error["msg"]).splitlines()
            return "; ".join(line.strip() for line in lines)
        case _:
            return error["msg"][:1].lower() + error["msg"][1:]


def _nearest(value: Any, choices: list[ErrorDetails]) -> str:
    if not isinstance(value, str):
        return ""
    return did_you_mean(value, chain.from_iterable(_words(error["ctx"]["expected"]) for error in choices))


def _words(choices: str) -> list[str]:
    """Return the choices listed in pydantic's ``"'a', 'b' or 'c'"``."""
    parts = choices.replace(" or ", ", ").split(", ")
    return [str(ast.literal_eval(part)) for part in parts if part.startswith("'") and part.endswith("'")]
