"""Text kernels against scikit-learn's HashingVectorizer and Python strings."""

from __future__ import annotations

import re
import string
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

from gpupipe_kernels import text
from gpupipe_kernels.engines import COSTS, HostEngine
from gpupipe_kernels.text import (
    Analyzer,
    Grams,
    GramValue,
    TextCount,
    characters,
)
from gpupipe_kernels.text.numba.engine import count_on_host, hash_on_host, kinds_on_host
from gpupipe_kernels.text.numpy.counts import count_characters
from gpupipe_kernels.text.numpy.grams import hash_grams
from gpupipe_kernels.text.numpy.murmur3 import murmur3
from tests.examples import examples

# Letters of one to four bytes, all that separates, and any other character.
ALPHABET = st.sampled_from("abAB1_é漢ß. ,!\n\t\0　\x85😀") | st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.text(ALPHABET, max_size=12), max_size=6)
GRAMS = st.builds(
    lambda analyzer, n_min, more, *rest: Grams(int(analyzer), n_min, n_min + more, *rest),
    st.sampled_from(Analyzer), st.integers(1, 4), st.integers(0, 3),
    st.sampled_from([1, 2, 7, 64]), st.integers(0, 1), st.sampled_from([0, 1]), st.integers(0, 1),
)  # fmt: skip
BOTH = [hash_grams, hash_on_host]
quick = examples(150, suppress_health_check=[HealthCheck.too_slow])


def arrow(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return texts in Arrow's layout, with read-only bytes."""
    encoded = [text.encode() for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)], dtype=np.int64)


def vectorizer(grams: Grams) -> HashingVectorizer:
    return HashingVectorizer(
        analyzer=Analyzer(grams.analyzer).name.lower(), ngram_range=(grams.n_min, grams.n_max), token_pattern=r"\w+",
        n_features=grams.n_buckets, alternate_sign=bool(grams.signed), binary=grams.value == GramValue.BINARY,
        norm="l2" if grams.l2 else None, lowercase=False,
    )  # fmt: skip


@pytest.mark.parametrize("hash_texts", BOTH)
@quick
@given(texts=TEXTS.filter(len), grams=GRAMS)
@example(texts=["", "a", "  a  b ", "\n \n"], grams=Grams(Analyzer.CHAR, 1, 3))
@example(texts=["", "a", "  a  b ", "\n \n"], grams=Grams(Analyzer.CHAR_WB, 1, 3))
@example(texts=["a", "abc d"], grams=Grams(Analyzer.CHAR_WB, 4, 6))
def test_vectors_are_those_of_scikit_learn(hash_texts: Callable[..., Any], texts: list[str], grams: Grams) -> None:
    expected = vectorizer(grams).transform(texts).toarray().T
    np.testing.assert_allclose(hash_texts(*arrow(texts), *grams), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("hash_texts", BOTH)
@pytest.mark.parametrize("signed", [0, 1])
def test_a_logarithm_keeps_the_sign_of_the_count(hash_texts: Callable[..., Any], signed: int) -> None:
    texts = ["to be or not to be", "be be be be", "", "so be it"]
    counts = vectorizer(Grams(n_buckets=8, signed=signed, l2=0)).transform(texts).toarray().T
    expected = np.sign(counts) * np.log1p(np.abs(counts))
    got = hash_texts(*arrow(texts), *Grams(n_buckets=8, signed=signed, value=GramValue.LOG, l2=0))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert counts.max() > 1


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_the_hash_is_murmur3(slices: list[bytes]) -> None:
    stops = np.cumsum([len(part) for part in slices])
    starts = stops - [len(part) for part in slices]
    expected = [murmurhash3_32(part, seed=0, positive=True) for part in slices]
    assert murmur3(np.frombuffer(b"".join(slices), np.uint8), starts, stops).tolist() == expected


def test_classes_are_those_of_pythons_strings() -> None:
    for code in [*range(0xD800), *range(0xE000, 0x20000), 0xE0001, 0x10FFFF]:
        character, bits = chr(code), int(characters.classes()[code])
        assert bool(bits & characters.WORD) == bool(re.match(r"\w", character)), hex(code)
        assert bool(bits & characters.SPACE) == bool(re.match(r"\s", character)), hex(code)
        assert bool(bits & characters.UPPER) == character.isupper(), hex(code)
        assert bool(bits & characters.DIGIT) == character.isdecimal(), hex(code)
        assert bool(bits & characters.LETTER) == character.isalpha(), hex(code)
    punctuation = [chr(code) for code in range(128) if characters.classes()[code] & characters.PUNCTUATION]
    assert punctuation == sorted(string.punctuation)


def naive_counts(text: str) -> list[int]:
    """Return the counts in the order of `TextCount`, by Python string methods."""
    return [
        len(text), len(text.encode()), len(re.findall(r"\w+", text)), len(re.findall(r"[^\n]*\n|[^\n]+", text)),
        sum(c.isalpha() for c in text), sum(c.isupper() for c in text), sum(c.isdecimal() for c in text),
        sum(bool(characters.classes()[ord(c)] & characters.PUNCTUATION) for c in text), sum(c.isspace() for c in text),
    ]  # fmt: skip


@pytest.mark.parametrize("count_texts", [count_characters, count_on_host])
@quick
@given(texts=TEXTS)
@example(texts=["a\n", "", "\n", "word", "word_2 x"])
def test_counts_are_those_of_pythons_strings(count_texts: Callable[..., Any], texts: list[str]) -> None:
    expected = np.array([naive_counts(text) for text in texts]).reshape(-1, len(TextCount)).T
    np.testing.assert_array_equal(count_texts(*arrow(texts)), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda *texts: hash_grams(*texts, *Grams()),
        lambda *texts: hash_on_host(*texts, *Grams()),
        count_characters,
        count_on_host,
    ],
    ids=["hash_grams", "hash_on_host", "count_characters", "count_on_host"],
)
def test_texts_may_be_a_part_of_the_bytes(function: Callable[..., Any]) -> None:
    data, offsets = arrow(["look out", "one two", "", "Drei vier", "look out too"])
    part = function(data, offsets[1:5])
    np.testing.assert_array_equal(part, function(data, offsets)[:, 1:4])


@pytest.mark.parametrize("function", [hash_grams, hash_on_host])
def test_texts_longer_and_more_than_a_block_are_hashed_alike(function: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}é" for i in range(300)])
    texts = [" ".join(rng.choice(words, n)) for n in (*rng.integers(0, 9, 3_000), 30_000)]
    grams = Grams(n_max=2, n_buckets=16)
    expected = vectorizer(grams).transform(texts).toarray().T
    np.testing.assert_allclose(function(*arrow(texts), *grams), expected, rtol=1e-5, atol=1e-7)


def test_threads_change_nothing() -> None:
    data, offsets = arrow([f"text number {i} — № {i % 7}" for i in range(5_000)])
    grams = Grams(Analyzer.CHAR_WB, 2, 4)
    one = hash_on_host(data, offsets, *grams, n_threads=1)
    np.testing.assert_array_equal(hash_on_host(data, offsets, *grams, n_threads=3), one)
    np.testing.assert_array_equal(count_on_host(data, offsets, n_threads=3), count_characters(data, offsets))


@quick
@given(st.binary(max_size=40), st.sampled_from(Analyzer))
def test_bytes_that_are_not_utf8_have_no_class_and_do_no_harm(data: bytes, analyzer: Analyzer) -> None:
    array = np.frombuffer(data, np.uint8)
    offsets = np.array([0, len(data) // 2, len(data)])
    np.testing.assert_array_equal(kinds_on_host(array), characters.byte_kinds(array))
    assert np.isfinite(hash_on_host(array, offsets, *Grams(int(analyzer), 1, 3, 8))).all()
    assert np.isfinite(count_on_host(array, offsets)).all()


def test_no_texts_have_no_columns() -> None:
    data, offsets = arrow([])
    assert hash_grams(data, offsets, *Grams()).shape == hash_on_host(data, offsets, *Grams()).shape == (64, 0)
    assert count_characters(data, offsets).shape == count_on_host(data, offsets).shape == (len(TextCount), 0)


def test_small_inputs_load_no_compiler() -> None:
    script = (
        "import sys, numpy as np; from gpupipe_kernels import text;"
        "data, offsets = np.frombuffer(b'some words', np.uint8), np.array([0, 4, 10]);"
        "text.hash_texts(data, offsets, text.Grams()); text.count_texts(data, offsets);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_an_engine_is_chosen_by_the_bytes_unless_it_is_named(
    engine: HostEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, offsets = arrow(["a few words"] * 3)
    ran = []
    monkeypatch.setattr("gpupipe_kernels.text.numba.engine.hash_on_host", lambda *_, **__: ran.append("numba"))
    monkeypatch.setattr(text, "hash_grams", lambda *_: ran.append("numpy"))
    text.hash_texts(data, offsets, Grams())
    text.hash_texts(data, offsets, Grams(), engine=engine)
    monkeypatch.setitem(COSTS, "text", replace(COSTS["text"], compile_seconds=1e-7))
    text.hash_texts(data, offsets, Grams())
    assert ran == ["numpy", engine, "numba"]


@pytest.mark.parametrize("l2", [0, 1])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("value", GramValue)
def test_both_engines_give_the_same_bits(value: GramValue, signed: int, l2: int) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdé "), rng.integers(1, 7))) for _ in range(50)]
    made = [" ".join(rng.choice(words, rng.integers(0, 60))) for _ in range(3_000)]
    data, offsets = arrow(made)
    for size in (1, len(made)):  # NumPy adds the squares of one text alone in another order
        grams = Grams(int(Analyzer.WORD), 1, 2, 32, signed, int(value), l2)
        expected = hash_grams(data, offsets[: size + 1], *grams)
        np.testing.assert_array_equal(hash_on_host(data, offsets[: size + 1], *grams, n_threads=2), expected)
    single = [hash_grams(data, offsets[i : i + 2], *grams) for i in range(200)]
    np.testing.assert_array_equal(np.concatenate(single, axis=1), expected[:, :200])
