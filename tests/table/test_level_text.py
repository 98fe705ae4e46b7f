"""Texts of levels: one for each value, in single rows and in tables."""

from __future__ import annotations

import datetime as dt
import unicodedata
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.table.hash_buckets import hash_levels
from gpupipe.table.level_text import LevelLookup, canonical_text, normal_form, normal_text
from gpupipe.table.schema import FIRST_LEVEL, UNSEEN, Column
from gpupipe.table.string_columns import as_dictionary, normal_texts, remap, remap_hashed
from tests.examples import examples


def column(*levels: str, dtype: str = "string", **more: Any) -> Column:
    return Column("x", "categorical", dtype, storage="int8", levels=levels, has_normal_form=True, **more)


@pytest.mark.parametrize(
    ("texts", "normal"),
    [
        (("oak", "oak ", "\toak\n", "oak\u00a0", "\u3000oak"), "oak"),
        (("true", "True", "TRUE", " True"), "true"),
        (("1", "1.0", " 1"), "1"),
        (("0", "0.0", "-0", "-0.0"), "0"),
        (("-12", "-12.0"), "-12"),
        (("2024-01-31", "2024-01-31 00:00:00", "2024-01-31T00:00:00.000", "2024-01-31T00:00:00Z"), "2024-01-31"),
        (("2024-01-31 05:06:07", "2024-01-31T05:06:07.000000", "2024-01-31 05:06:07+00:00"), "2024-01-31 05:06:07"),
        (("2024-01-31 05:06:07.25", "2024-01-31T05:06:07.250000"), "2024-01-31 05:06:07.25"),
        (("größe", unicodedata.normalize("NFD", "größe")), "größe"),
    ],
)
def test_the_texts_that_write_one_value_have_one_normal_form(texts: tuple[str, ...], normal: str) -> None:
    assert {normal_text(text) for text in texts} == {normal}
    assert set(normal_texts(pa.array(texts)).to_pylist()) == {normal}


@pytest.mark.parametrize("text", ["01", "1.10", "1.00", "00", "+1", "1e3", "tRUE", "yes", "Oak", "１", "1,0", "a b"])
def test_codes_and_other_words_are_their_own_form(text: str) -> None:
    assert normal_text(text) == text


@pytest.mark.parametrize(
    ("dtype", "texts", "normal"),
    [
        ("int64", ("1000", "1e3", "1000.0", "+1000", "01000"), "1000"),
        ("double", ("1.1", "1.10", "+1.1", "01.1"), "1.1"),
        ("float", ("1.1", "1.100000023841858"), "1.1"),
        ("uint64", ("18446744073709551615", "018446744073709551615"), "18446744073709551615"),
        ("bool", ("true", "True", "1", " TRUE"), "true"),
        ("string", ("1e3",), "1e3"),
    ],
)
def test_texts_of_a_typed_column_mean_its_values(dtype: str, texts: tuple[str, ...], normal: str) -> None:
    assert {normal_form(dtype)(text) for text in texts} == {normal}
    assert set(normal_texts(pa.array(texts), dtype).to_pylist()) == {normal}


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1_0", "١", "0x10", "1" * 500, "1e999"])
def test_what_is_not_a_number_is_unchanged_in_a_column_of_numbers(text: str) -> None:
    assert normal_form("double")(text) == text


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        (("True", "False"), {"True": 0, "true": 0, "TRUE": 0, "false": 1, "yes": None}),
        (("true", "True"), {"true": 0, "True": 1, "TRUE": None}),
        (("1.0", "2.0"), {"1": 0, "1.0": 0, "2": 1, "1.00": None, "01": None}),
        (("1", "1.0"), {"1": 0, "1.0": 1, "1.0 ": None}),
        (("1.10", "1.1"), {"1.10": 0, "1.1": 1, "1.100": None}),
        (("01", "1"), {"01": 0, "1": 1, "1.0": 1, "001": None}),
        (("oak ", "ash"), {"oak": 0, "oak ": 0, " oak": 0, " ash": 1}),
        (("oak ", "oak"), {"oak": 1, "oak ": 0, "  oak": None}),
        (("2024-01-31 00:00:00",), {"2024-01-31": 0, "2024-01-31T00:00:00": 0, "2024-01-30": None}),
    ],
)
def test_a_text_is_the_equal_level_or_else_the_only_one_of_its_value(
    levels: tuple[str, ...], found: dict[str, int | None]
) -> None:
    known = column(*levels)
    lookup, codes = LevelLookup(known), remap(pa.array(list(found)), known)
    for text, code, expected in zip(found, codes.tolist(), found.values(), strict=True):
        assert lookup(text) == (None if expected is None else FIRST_LEVEL + expected), text
        assert code == (UNSEEN if expected is None else FIRST_LEVEL + expected), text


def test_models_of_earlier_versions_compare_texts_as_they_are() -> None:
    old = Column("x", "categorical", "string", storage="int8", levels=("True", "oak"))
    texts = ["True", "true", "oak", "oak "]
    assert remap(pa.array(texts), old).tolist() == [3, 1, 4, 1] == [LevelLookup(old)(text) or 1 for text in texts]
    assert len(set(hash_levels(Column("x", "categorical", "string", hash_of="x", n_buckets=999), ["1", "1.0"]))) == 2


@pytest.mark.parametrize(
    ("dtype", "level", "value"),
    [
        ("float", "1.100000023841858", np.float32(1.1)),
        ("timestamp[us]", "2024-01-31 00:00:00.000000", dt.date(2024, 1, 31)),
    ],
)
def test_values_whose_text_has_changed_have_their_levels_in_earlier_models(dtype: str, level: str, value: Any) -> None:
    old = Column("x", "categorical", dtype, storage="int8", levels=("a", level))
    coded = as_dictionary(pa.chunked_array([pa.array([value])]))
    assert remap(coded.chunk(0).dictionary, old).tolist() == [4]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1.1, 2.0, -0.0, None, float("nan")], pa.float32()), ["1.1", "2", "0", None, None]),
        (pa.array([1.1, 1e16, 1e-7]), ["1.1", "10000000000000000", "1e-07"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([dt.date(2024, 1, 31)]), ["2024-01-31"]),
        (pa.array([dt.datetime(2024, 1, 31), dt.datetime(2024, 1, 31, 5)]), ["2024-01-31", "2024-01-31 05:00:00"]),
        (pa.array([pd.Timestamp("2024-01-31 05:06:07.25")]), ["2024-01-31 05:06:07.25"]),
    ],
)
def test_typed_values_have_one_text(values: pa.Array, texts: list[str | None]) -> None:
    assert as_dictionary(pa.chunked_array([values])).cast(pa.string()).to_pylist() == texts


@examples(100)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float32_is_the_shortest_that_is_read_back(value: float) -> None:
    text = canonical_text(np.float32(value))
    assert text is not None and np.float32(text) == np.float32(value)
    assert value.is_integer() or text == str(np.float32(value))


def test_texts_of_one_value_have_one_bucket() -> None:
    hashed = Column("x", "categorical", "string", storage="int16", hash_of="x", n_buckets=999, has_normal_form=True)
    for texts in (["1", "1.0", " 1"], ["True", "TRUE", "true"], ["oak", "oak "]):
        assert len(set(hash_levels(hashed, texts))) == 1
        assert remap_hashed(pa.array(texts), hashed).tolist() == hash_levels(hashed, texts).tolist()


@examples(100)
@given(st.lists(st.sampled_from(["1", "1.0", "01", "True", "true", "oak", "oak ", "NA", "é", "e\u0301"]), unique=True))
def test_a_lookup_that_cannot_compute_has_the_codes_of_one_that_can(levels: list[str]) -> None:
    lookup = LevelLookup(column(*levels))
    for text, code in lookup.spellings().items():
        assert lookup(text) == code
