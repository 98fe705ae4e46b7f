"""Redaction of the values of secret variables in a text."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.config.redaction import Redactor

TOKEN = "gK7vQ2xW9rT4mZ8pL3"
HOSTILE = "gK7'v\"Q2\\xW\n9rT/4%mZ +8é&pL3"

ESCAPES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "repr in double quotes": lambda text: repr(f"'{text}"),
    "JSON": json.dumps,
    "JSON with letters": lambda text: json.dumps(text, ensure_ascii=False),
    "HTML": html.escape,
    "URL path": quote,
    "URL part": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "repr of a repr": lambda text: repr(repr(text)),
    "lower case": str.lower,
    "one line": lambda text: " ".join(text.split()),
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=list(ESCAPES))
@pytest.mark.parametrize("value", [TOKEN, HOSTILE], ids=["token", "hostile"])
@pytest.mark.parametrize("around", ["no column {}", "db_{}_v1", "x{}y"])
def test_a_value_is_hidden_however_it_is_escaped(value: str, escape: Callable[[str], str], around: str) -> None:
    hidden = Redactor({"T": value}).hide(around.format(escape(value)))
    assert "${T}" in hidden
    assert escape(value).strip("'\"").lower() not in hidden.lower()


@settings(deadline=None)
@given(
    value=st.text(st.characters(codec="utf8"), min_size=6, max_size=40),
    escape=st.sampled_from(["plain", "repr", "JSON", "HTML", "URL part", "form"]),
    before=st.sampled_from(["", "at ", "a_", "no 'x' in "]),
    after=st.sampled_from(["", " is wrong", "_b", "'"]),
)
def test_no_text_with_a_value_in_it_keeps_the_value(value: str, escape: str, before: str, after: str) -> None:
    written = ESCAPES[escape](value)
    hidden = Redactor({"T": value}).hide(f"{before}{written}{after}")
    assert written.lower() not in hidden.lower()


@pytest.mark.parametrize("escape", ["plain", "repr", "JSON", "URL part"])
@pytest.mark.parametrize("mark", ["...", "…"])
def test_the_start_of_a_value_is_hidden_in_front_of_an_ellipsis(escape: str, mark: str) -> None:
    redactor = Redactor({"T": HOSTILE + TOKEN})
    written = ESCAPES[escape](HOSTILE + TOKEN).strip("'\"")
    for length in range(6, len(written)):
        text = f"got '{written[:length].upper()}{mark}, not x{mark}"
        assert redactor.hide(text) == f"got '${{T}}{mark}, not x{mark}", text


@pytest.mark.parametrize(
    ("value", "text", "hidden"),
    [
        ("https://bob:h4nter22@db/x", "no password h4nter22 for bob", "no password ${T} for bob"),
        ("ab12", "the word ab12, in db_ab12_x, not in cab12", "the word ${T}, in db_${T}_x, not in cab12"),
        ("-a1-", "x-a1-y", "x${T}y"),
        ("48151623", "the user 48151623", "the user ${T}"),
        ("secret-1\n", "the key 'secret-1'", "the key '${T}'"),
    ],
)
def test_parts_of_a_value(value: str, text: str, hidden: str) -> None:
    assert Redactor({"T": value}).hide(text) == hidden


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/mnt/data/customers.csv", "orders.csv: 3 columns"),
        ("/mnt/models/training", "no row to train on: 60 training rows of 2 models"),
        ("customers-eu-2024", "the customer of 'customers' in column customer_id"),
        ("db://postgres@host/x", "cannot connect to postgresql://host-2 as postgres"),
        ("abc", "abc is in the alphabet"),
        ("tests", "to test, one tests2x"),
        ("x" * 6 + "the_", "the cat"),
    ],
)
def test_text_that_resembles_a_value_is_kept(value: str, text: str) -> None:
    assert Redactor({"T": value}).hide(text) == text


def test_paths_that_share_folders_with_a_value_are_kept() -> None:
    text = "/home/ann/churn/c.yaml:3:4: no file /home/ann/churn/data/eu/x.csv"
    hidden = "/home/ann/churn/c.yaml:3:4: no file ${DATA}/x.csv"
    assert Redactor({"DATA": "/home/ann/churn/data/eu"}).hide(text) == hidden


def test_a_setting_with_a_short_value_is_replaced_as_written() -> None:
    redactor = Redactor({"T": "eu"}, {"/data/eu.csv": "/data/${T}.csv"})
    assert redactor.hide("no file '/data/eu.csv' for eu") == "no file '/data/${T}.csv' for eu"


def test_references_stay() -> None:
    redactor = Redactor({"MY_TOKEN": "MY_TOKEN/abc123"})
    assert (
        redactor.hide("${MY_TOKEN} and ${MY_TOKEN!} of MY_TOKEN/abc123")
        == "${MY_TOKEN} and ${MY_TOKEN!} of ${MY_TOKEN}"
    )


def test_of_nested_values_the_longer_is_replaced_first() -> None:
    redactor = Redactor({"USER": "bob-4711", "URL": "db://bob-4711@host-99"})
    assert redactor.hide("db://bob-4711@host-99 as bob-4711") == "${URL} as ${USER}"


def test_json_values_are_hidden_all_the_way_down() -> None:
    redactor = Redactor({"T": TOKEN})
    assert redactor.hide_all({TOKEN: [TOKEN, 3, {"a": f"x{TOKEN}"}]}) == {"${T}": ["${T}", 3, {"a": "x${T}"}]}


def test_a_very_long_value_costs_little() -> None:
    value = "\n".join(f"{i:x}Zq{i * 7919:x}" for i in range(1_000))  # a certificate bundle
    redactor = Redactor({"CA": value})
    assert redactor.hide(f"cannot parse {value!r} of 3 columns") == "cannot parse '${CA}' of 3 columns"
    assert redactor.hide(f"cannot parse {value[:5_000]}...") == "cannot parse ${CA}..."
