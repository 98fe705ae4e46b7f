"""text_hash against scikit-learn's HashingVectorizer, for text columns from every source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.errors import ConfigError, LimitError, SchemaError
from gpupipe.features import OPS
from gpupipe.features.history.derivation import derive
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.distinct_text_op import encode_texts
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from tests.examples import examples

TEXTS = ["Red RETROSPOT bag", None, "bag, red & blue", "", "Été à la plage 😀", "Red RETROSPOT bag", "a\0b"]
BACKEND = choose("cpu")


def sources(columns: dict[str, Any], unknown: tuple[str, ...] = (), **kinds: str) -> DerivationSources:
    arrow = pa.table(columns)
    table = encode(arrow, BACKEND, {name: declare(kind) for name, kind in kinds.items()})
    return DerivationSources(HistoryRows.of_arrow(table, arrow, "the table", unknown), {}, BACKEND)


def hashed(column: Any, **settings: Any) -> np.ndarray:
    """Return the columns that text_hash makes, shape (rows, buckets)."""
    op: Any = OPS.get("text_hash").model_validate({"columns": "note", "buckets": 16, **settings})
    return np.stack([made.values for made in op.derive(sources({"note": column}, note="text"))], axis=1)


def expected(texts: list[str | None], **settings: Any) -> np.ndarray:
    vectorizer = HashingVectorizer(n_features=16, token_pattern=r"\w+", **settings)
    return vectorizer.transform([text or "" for text in texts]).toarray()


@pytest.mark.parametrize(
    "ours, theirs",
    [
        ({}, {}),
        ({"ngrams": [1, 2], "norm": "none"}, {"ngram_range": (1, 2), "norm": None}),
        ({"analyzer": "char", "ngrams": [2, 3]}, {"analyzer": "char", "ngram_range": (2, 3)}),
        ({"analyzer": "char_wb", "ngrams": [3, 4]}, {"analyzer": "char_wb", "ngram_range": (3, 4)}),
        ({"lowercase": False, "alternate_sign": False}, {"lowercase": False, "alternate_sign": False}),
        ({"value": "binary", "norm": "none"}, {"binary": True, "norm": None}),
    ],
)
def test_the_columns_match_scikit_learn(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    np.testing.assert_allclose(hashed(TEXTS, **ours), expected(TEXTS, **theirs), rtol=1e-6, atol=1e-7)


CHUNKS = [pa.array(TEXTS[:3]), pa.array([], pa.string()), pa.array(TEXTS[3:])]
LAYOUTS = {
    "string": pa.chunked_array(CHUNKS),
    "large_string": pa.chunked_array(CHUNKS).cast(pa.large_string()),
    "string_view": pa.chunked_array(CHUNKS).cast(pa.string_view()),
    "sliced": pa.chunked_array([pa.array(["no", *TEXTS, "no"]).slice(1, len(TEXTS))]),
    "a dictionary for each chunk": pa.chunked_array([chunk.dictionary_encode() for chunk in CHUNKS]),
    "sliced dictionary": pa.chunked_array([pa.array(["no", *TEXTS]).dictionary_encode().slice(1)]),
    "null in the dictionary": pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array(range(len(TEXTS)), pa.int8()), pa.array(TEXTS))]
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_strings_gives_the_same(layout: str) -> None:
    np.testing.assert_array_equal(hashed(LAYOUTS[layout]), hashed(TEXTS))


@examples(50)
@given(st.lists(st.text(max_size=10) | st.none(), min_size=1, max_size=8), st.integers(0, 8))
def test_chunks_change_nothing(texts: list[str | None], cut: int) -> None:
    chunks = [pa.array(texts[:cut], pa.string()), pa.array(texts[cut:], pa.string())]
    np.testing.assert_allclose(
        hashed(pa.chunked_array(chunks), lowercase=False), expected(texts, lowercase=False), rtol=1e-6, atol=1e-7
    )


def test_only_texts_that_rows_hold_are_hashed() -> None:
    long = pa.chunked_array([pa.array([f"text {i}" for i in range(1_000)]).dictionary_encode()])
    texts, codes = encode_texts(long.slice(500, 3), BACKEND)
    assert texts.to_pylist() == ["text 500", "text 501", "text 502", ""]
    assert codes.tolist() == [0, 1, 2]


def test_rows_taken_by_threads_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    few = hashed(TEXTS * 3)
    monkeypatch.setattr("gpupipe.features.ops.distinct_text_op.MIN_PARALLEL_ROWS", 0)
    np.testing.assert_array_equal(hashed(TEXTS * 3), few)


def test_a_null_is_all_zeros() -> None:
    assert not hashed([None, "", "text"])[:2].any()
    assert not hashed(pa.nulls(3)).any()
    assert hashed(pa.array([], pa.string())).shape == (0, 16)


def test_numbers_that_are_categories_are_hashed_as_they_are_printed() -> None:
    np.testing.assert_array_equal(hashed(pa.array([17, None, 4])), hashed(["17", None, "4"]))


def test_columns_are_named_after_text_prefix_and_bucket() -> None:
    op: Any = OPS.get("text_hash").model_validate({"columns": "note", "buckets": 2, "prefix": "w_"})
    made = list(op.derive(sources({"note": ["a", "b"]})))
    assert [column.name for column in made] == ["w_note_hash_0", "w_note_hash_1"]
    assert {column.inputs for column in made} == {("note",)}


def test_a_selection_means_the_columns_of_the_fit_wherever_the_model_serves() -> None:
    op: Any = OPS.get("text_hash").model_validate("@text")
    _, derivation = derive([op], sources({"note": ["a"], "title": ["b"], "shop": ["c"], "n": [1]},
                                         note="text", title="text", shop="categorical"))  # fmt: skip
    assert derivation.ops[0].columns == ["note", "title"]  # type: ignore[attr-defined]
    assert derivation.inputs == ("note", "title")


def test_a_program_hashes_texts_that_it_has_never_seen() -> None:
    frame = pd.DataFrame({"note": TEXTS, "n": np.arange(7.0)})
    program = gp.FeatureProgram([{"text_hash": {"columns": "note", "buckets": 16}}], view="codes")
    program.fit(frame)
    new = ["never seen before", None, "Red RETROSPOT bag"]
    values: Any = program.transform(pd.DataFrame({"note": new, "n": 0.0}))
    names: Any = program.get_feature_names_out()
    matrix = pd.DataFrame(values, columns=names)
    np.testing.assert_allclose(matrix.filter(like="_hash_"), expected(new), rtol=1e-6, atol=1e-7)
    assert program.fitted_.lineage["note_hash_3"] == ["note"]


def test_a_saved_model_hashes_as_its_run_did(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    good, words = rng.random(600) < 0.5, np.array(["fine", "broken", "red", "blue", "late"])
    notes = [f"{words[0 if g else 1]} {' '.join(rng.choice(words[2:], 3))} {i}" for i, g in enumerate(good)]
    pd.DataFrame({"note": notes, "good": np.where(good, "yes", "no")}).to_csv(tmp_path / "notes.csv", index=False)
    config = {
        "source": {"path": str(tmp_path / "notes.csv"), "target": "good", "positive": "yes"},
        "features": [{"text_hash": {"columns": "@text", "buckets": 64}}],
        "models": ["logistic_regression"],
        "output": str(tmp_path / "runs"),
    }
    (tmp_path / "notes.yaml").write_text(json.dumps(config), encoding="utf8")
    run = gp.Pipeline.from_yaml(tmp_path / "notes.yaml").run()
    assert run.metrics["roc_auc"] > 0.99
    probability = gp.load_model(run.path).predict_proba(pd.DataFrame({"note": ["fine thing, 9999", "broken, sorry"]}))[
        :, 1
    ]
    assert probability[0] > 0.9 and probability[1] < 0.1


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"columns": "n"}, r"(?s)text_hash takes text columns; 'n' is numeric.*schema: \{n: text\}"),
        ({"columns": "nothing"}, "(?s)no column 'nothing'.*the columns are note, n"),
        ({"columns": "answer"}, "'answer' is the target"),
    ],
)
def test_a_column_that_is_not_text_is_rejected_with_advice(settings: dict[str, Any], message: str) -> None:
    op: Any = OPS.get("text_hash").model_validate(settings)
    with pytest.raises(ConfigError, match=message):
        list(op.derive(sources({"note": ["a"], "n": [1.0], "answer": ["b"]}, unknown=("answer",))))


def test_invalid_utf8_is_rejected_with_the_column() -> None:
    offsets = pa.py_buffer(np.array([0, 4], np.int32))
    broken = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"caf\xe9"))
    with pytest.raises(SchemaError, match="column 'note' contains text that is not UTF-8"):
        hashed(broken)


def test_more_columns_than_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    free = BACKEND.memory().__class__(total=1000, available=1000, peak=0)
    monkeypatch.setattr(BACKEND, "memory", lambda: free)
    monkeypatch.setattr("gpupipe.features.ops.content_op.MIN_BYTES_CHECKED", 1)
    with pytest.raises(LimitError, match=r"(?s)16 columns of 10 rows.*fewer columns, buckets or rows"):
        hashed(["text"] * 10)


@pytest.mark.parametrize("ngrams", [[0, 1], [2, 1], [1, 17]])
def test_ngrams_ascend_and_are_few(ngrams: list[int]) -> None:
    with pytest.raises(ValueError, match="minimum <= maximum <= 16"):
        OPS.get("text_hash").model_validate({"columns": "note", "ngrams": ngrams})


@pytest.mark.parametrize("settings", [{}, {"norm": "none"}, {"value": "log", "norm": "none"}])
@pytest.mark.parametrize("view", ["dense", "embedding"])
def test_models_of_scaled_numbers_take_the_columns_as_they_are(settings: dict[str, Any], view: str) -> None:
    texts = ["a b", "a c", "a", "rare a a"]
    op = {"text_hash": {"columns": "note", "buckets": 16, **settings}}
    program = gp.FeatureProgram([op], view=view, schema={"note": "text"})
    np.testing.assert_array_equal(program.fit_transform(pd.DataFrame({"note": texts})), hashed(texts, **settings))


def test_a_numeric_column_next_to_them_is_standardized() -> None:
    frame = pd.DataFrame({"note": ["a b", "a c", "a", "rare"], "age": [1.0, 2.0, 3.0, 10.0]})
    op = {"text_hash": {"columns": "note", "buckets": 4}}
    program = gp.FeatureProgram([op], schema={"note": "text"}).set_output(transform="pandas")
    found = program.fit_transform(frame)["age"]
    np.testing.assert_allclose(found, (frame.age - 4.0) / frame.age.std(ddof=0), rtol=1e-6)


@pytest.mark.parametrize(("columns", "is_scaled"), [("@numeric", False), ("@all", False), ("note_hash_*", True)])
def test_ops_that_scale_a_kind_leave_the_columns(columns: str, is_scaled: bool) -> None:
    texts = ["a b", "a c", "a", "rare a a"]
    ops: list[Any] = [{"text_hash": {"columns": "note", "buckets": 16}}, {"standardize": [columns, "!note"]}]
    ops = ops if columns == "@all" else [ops[0], {"standardize": columns}]
    program = gp.FeatureProgram(ops, schema={"note": "text"})
    found = program.fit_transform(pd.DataFrame({"note": texts}))
    assert np.array_equal(found, hashed(texts)) is not is_scaled


def test_logistic_regression_on_texts_is_as_good_as_with_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(300)])
    effect = rng.normal(size=300) * (rng.random(300) < 0.1) * 3
    chosen = rng.integers(0, 300, (600, 8))
    y = (effect[chosen].sum(axis=1) + rng.logistic(size=600) > 0).astype(int)
    rows = pd.DataFrame({"note": [" ".join(words[row]) for row in chosen]})
    op = {"text_hash": {"columns": "note", "buckets": 512, "ngrams": [1, 2]}}
    program = gp.FeatureProgram([op], schema={"note": "text"})
    vectorizer = HashingVectorizer(n_features=512, ngram_range=(1, 2), token_pattern=r"\w+")
    theirs = vectorizer.transform(rows.note).toarray()
    losses = []
    for X in (program.fit(rows[:400]).transform(rows), theirs):
        model = LogisticRegression(max_iter=1000).fit(X[:400], y[:400])
        losses.append(log_loss(y[400:], model.predict_proba(X[400:])))
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
