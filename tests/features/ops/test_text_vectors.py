"""text_vectors against scikit-learn's TfidfTransformer and TruncatedSVD, on n-grams hashed by scikit-learn."""

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
from scipy.sparse import hstack
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import Ridge, RidgeCV

import gpupipe as gp
from gpupipe.backends import DeviceOptions, choose
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.features import OPS
from gpupipe.features.statistics import text_components, text_target
from tests.examples import examples

RNG = np.random.default_rng(3)
WORDS = np.array([f"{a}{b}{c}" for a in ("re", "Bla", "ü", "tom") for b in ("d", "st", "漢") for c in ("", "er", "s")])
TEXTS: list[str | None] = [" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(1, 9, 70)]
TEXTS[5:8] = [None, "", "Red red, RED"]
TEXTS += TEXTS[:9]
GRAMS: dict[str, dict[str, Any]] = {
    "word": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+"},
    "char": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}


def program(k: int = 4, **settings: Any) -> gp.FeatureProgram:
    op = {"text_vectors": {"columns": "note", "n_components": k, "size": 1024, **settings}}
    return gp.FeatureProgram([op], view="codes", schema={"note": "text"})


def frame(texts: Any) -> pd.DataFrame:
    return pd.DataFrame({"note": pd.Series(texts, dtype=object)})


def weighted(analyzer: str, train: list[str], test: list[str]) -> tuple[Any, Any]:
    """Return the TF-IDF matrices of scikit-learn."""
    vectorizer = HashingVectorizer(n_features=1024, alternate_sign=False, norm=None, **GRAMS[analyzer])
    counts, new = vectorizer.transform(train), vectorizer.transform(test)
    known = np.asarray(counts.sum(axis=0)).ravel() > 0
    weights = TfidfTransformer(sublinear_tf=True).fit(counts[:, known])
    return weights.transform(counts[:, known]), weights.transform(new[:, known])


@pytest.mark.parametrize("analyzer", ["word", "char", "auto"])
def test_the_columns_match_scikit_learn(analyzer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_components, "N_ITERATIONS", 50)  # so that both are exact
    train = [text or "" for text in TEXTS]
    new = ["tomst never seen", "", "Blader bla BLAder", "red " * 50]
    parts = [weighted(each, train, new) for each in (["word", "char"] if analyzer == "auto" else [analyzer])]
    X, X_new = (hstack([part[i] for part in parts]).tocsr() for i in (0, 1))
    svd = TruncatedSVD(4, n_iter=50, random_state=0).fit(X)
    scale = svd.transform(X).var(axis=0).sum() ** -0.5
    fitted = program(analyzer=analyzer).fit(frame(TEXTS))
    for texts, theirs in ((TEXTS, X), (new, X_new)):
        ours, expected = fitted.transform(frame(texts)), svd.transform(theirs) * scale
        signs = np.sign(svd.transform(X)[0]) * np.sign(fitted.transform(frame(TEXTS[:1]))[0])
        np.testing.assert_allclose(ours, expected * signs, atol=6e-3)  # components are stored as float16


def test_repeated_rows_weigh_as_rows_and_as_weights() -> None:
    weights = RNG.integers(1, 4, len(TEXTS))
    once = program().fit(frame(TEXTS), sample_weight=weights)
    repeated = program().fit(frame(np.repeat(np.array(TEXTS, object), weights)))
    np.testing.assert_array_equal(once.transform(frame(TEXTS)), repeated.transform(frame(TEXTS)))


def test_training_rows_are_transformed_like_new_ones_and_null_is_zero() -> None:
    fitted = program()
    found = fitted.fit_transform(frame(TEXTS))
    np.testing.assert_array_equal(fitted.transform(frame(TEXTS)), found)
    assert not found[5:7].any() and found[:5].any(axis=1).all()
    assert not program(analyzer="word").fit(frame(TEXTS)).transform(frame(["???", None])).any()


@examples(40)
@given(st.lists(st.text(max_size=12) | st.none(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_and_engine_change_no_bit(texts: list[str | None], random: Any) -> None:
    order = random.sample(range(len(texts)), len(texts))
    fitted, shuffled = program().fit(frame(texts)), program().fit(frame([texts[i] for i in order]))
    expected = fitted.transform(frame(texts))
    np.testing.assert_array_equal(shuffled.transform(frame(texts)), expected)
    op: Any = fitted.fitted_.derivation.ops[0]  # type: ignore[union-attr]
    given = pa.array([text or "" for text in texts], pa.string())
    for engine in ("numpy", "numba"):
        backend = choose("cpu", DeviceOptions(engine=engine))
        np.testing.assert_array_equal(op.values(given, "note", backend).T, expected)
    for i, text in enumerate(texts):  # whatever the texts next to it
        np.testing.assert_array_equal(op.values(pa.array([text or ""]), "note", choose("cpu"))[:, 0], expected[i])


def test_only_texts_of_training_rows_are_learned(tmp_path: Path) -> None:
    rows = frame([*TEXTS, *["zebra crossing"] * 40]).assign(part=["fit"] * len(TEXTS) + ["new"] * 40)
    rows["y"] = np.arange(len(rows)) % 7.0
    rows.to_parquet(tmp_path / "rows.parquet")
    config = {
        "source": {"path": str(tmp_path / "rows.parquet"), "target": "y", "schema": {"note": "text"}},
        "split": {"column": {"name": "part", "train": ["fit"], "test": ["new"]}},
        "features": [{"text_vectors": {"columns": "note", "n_components": 4, "size": 1024}}],
        "models": ["ridge"],
        "seed": 0,
        "output": str(tmp_path / "runs"),
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config), encoding="utf8")
    run = gp.Pipeline.from_yaml(tmp_path / "run.yaml").run()
    expected = program().fit(frame(TEXTS)).transform(frame(TEXTS))
    model = gp.load_model(run.path)
    np.testing.assert_array_equal(model.transform(frame(TEXTS)), expected)
    assert model.features.lineage["note_vector_2"] == ["note"]
    scorer = gp.load_scorer(run.path)
    for text in [*TEXTS[:9], "zebra red", "never"]:
        (value,) = model.predict(frame([text]))
        assert scorer.predict({"note": text}) == value
    with pytest.raises(ConfigError, match="text_vectors of note, which reads texts"):
        model.to_onnx(tmp_path / "model.onnx")


def test_the_predicted_target_is_that_of_ridge_regressions_on_other_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_target, "TOLERANCE", 1e-12)
    train = [text for text in dict.fromkeys(TEXTS) if text]
    new = ["tomst never seen", "", "Blader bla BLAder"]
    y = np.array([text.count("red") + len(text) / 50 for text in train]) + RNG.normal(0, 0.1, len(train))
    rows = frame(train).assign(plan="a")
    op = {"text_vectors": {"columns": "note", "n_components": 2, "size": 1024, "target": True}}
    ops: list[dict[str, Any]] = [op, {"target_encode": "plan"}]  # which stores the folds
    fitted = gp.FeatureProgram(ops, view="codes", schema={"note": "text"}).set_output(transform="pandas")
    found = fitted.fit_transform(rows, y)["note_vector_target"]
    parts = [weighted(each, train, new) for each in ("word", "char")]
    X, X_new = (hstack([part[i] for part in parts]).tocsr() for i in (0, 1))
    assert fitted.fitted_ is not None
    folds = np.asarray(fitted.fitted_.folds)

    def predict(used: Any, rows: Any) -> Any:
        centred = (y[used] - y[used].mean()) / y.std()
        return Ridge(penalty, fit_intercept=False, tol=1e-12).fit(X[used], centred).predict(rows)

    penalty = RidgeCV(text_target.PENALTIES, fit_intercept=False).fit(X, (y - y.mean()) / y.std()).alpha_
    for fold in range(1, 6):
        np.testing.assert_allclose(found[folds == fold], predict(folds != fold, X[folds == fold]), atol=1e-5)
    of_new = fitted.transform(frame(new).assign(plan="a"))["note_vector_target"]
    np.testing.assert_allclose(of_new, predict(np.full(len(y), True), X_new), atol=5e-3)  # stored as float16


def test_the_predicted_target_of_a_training_row_does_not_know_its_own() -> None:
    unique = [f"{a} {b}" for a in WORDS for b in WORDS]
    noise = RNG.normal(size=len(unique))
    fitted = program(target=True)
    own, new = (found[:, 4] for found in (fitted.fit_transform(frame(unique), noise), fitted.transform(frame(unique))))
    assert np.corrcoef(own, noise)[0, 1] < 0.1 < 0.2 < np.corrcoef(new, noise)[0, 1]
    of_three = program(target=True, folds=3).fit_transform(frame(unique), noise)[:, 4]
    assert not np.array_equal(of_three, own)


def test_a_column_predicts_each_class_and_each_target(tmp_path: Path) -> None:
    rows = frame(TEXTS).assign(kind=np.resize(["a", "b", "c"], len(TEXTS)), size=np.resize(["s", "l"], len(TEXTS)))
    op = {"text_vectors": {"columns": "note", "n_components": 1, "size": 1024, "target": True}}
    settings: dict[str, Any] = {"features": [op], "schema": {"note": "text"}, "seed": 0}
    of_classes = gp.Pipeline(
        rows.drop(columns="size"), target="kind", models=["logistic_regression"], split={"cv": 3}, **settings
    ).run(tmp_path / "classes", quiet=True)
    model, scorer = gp.load_model(of_classes.path), gp.load_scorer(of_classes.path)
    assert model.features.names == ["note_vector_0", *(f"note_vector_target_{i}" for i in range(3))]
    assert model.features.lineage["note_vector_target_2"] == ["note"]
    for text in [*TEXTS[:9], "never seen"]:
        np.testing.assert_array_equal(scorer.predict_proba({"note": text}), model.predict_proba(frame([text]))[0])
    several = gp.Pipeline(rows, target=["kind", "size"], models=["extra_trees"], **settings)
    run = several.run(tmp_path / "several", quiet=True)
    assert len(gp.load_model(run.path).features.names) == 5


def test_a_target_new_names_and_equal_folds_are_required() -> None:
    with pytest.raises(ConfigError, match="requires a target"):
        program(target=True).fit(frame(TEXTS))
    with pytest.raises(ConfigError, match="'note_vector_target' already exists"):
        program(target=True).fit(frame(TEXTS).assign(note_vector_target=1.0), np.arange(len(TEXTS)))
    ops = [{"text_vectors": {"columns": "note", "target": True, "folds": n, "prefix": f"{n}_"}} for n in (2, 3)]
    with pytest.raises(ConfigError, match="3 folds conflict with 2 folds"):
        gp.FeatureProgram(ops, schema={"note": "text"}).fit(frame(TEXTS), np.arange(len(TEXTS)))


def test_a_long_corpus_is_sampled_without_regard_to_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_components, "SAMPLE_BYTES", 500)
    y = np.array([len(text or "") for text in TEXTS])
    predicted = program(target=True).fit_transform(frame(TEXTS), y)[:, 4]
    assert np.isfinite(predicted).all() and np.corrcoef(predicted, y)[0, 1] > 0.3
    fitted, turned = program().fit(frame(TEXTS)), program().fit(frame(TEXTS[::-1]))
    found: Any = fitted.transform(frame(TEXTS))
    np.testing.assert_array_equal(turned.transform(frame(TEXTS)), found)
    monkeypatch.undo()
    assert not np.array_equal(program().fit(frame(TEXTS)).transform(frame(TEXTS)), found)


@pytest.mark.parametrize("texts", [[None, None], ["", "!"], ["one"], ["a b", "a b"]])
def test_few_or_no_texts_have_the_same_columns(texts: list[str | None]) -> None:
    found = program(k=3).fit_transform(frame(texts))
    assert found.shape == (2, 3) or texts == ["one"]
    assert np.isfinite(found).all()


def test_categories_keep_their_codes_and_texts_never_seen_are_similar() -> None:
    cities = ["Springfield", "Springfeild", "Boston", "Bostn", None] * 4
    op = {"text_vectors": {"columns": "city", "n_components": 2}}
    fitted = gp.FeatureProgram([op], view="codes", schema={"city": "categorical"}).fit(pd.DataFrame({"city": cities}))
    assert fitted.get_feature_names_out().tolist() == ["city", "city_vector_0", "city_vector_1"]
    found = fitted.transform(pd.DataFrame({"city": ["Sprinfield", "boston", None]}))[:, 1:]
    axes = np.abs(found).argmax(axis=1)
    assert axes[0] != axes[1] and np.abs(found[:2]).max(axis=1).min() > 0.4 and not found[2].any()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0_scale", lambda a: a * np.nan),
        ("0_buckets_0", lambda a: a[::-1].copy()),
        ("0_buckets_1", lambda a: a + np.int32(1024)),
        ("0_idf_1", lambda a: a[:-1]),
        ("0_components_0", lambda a: a[:, :-1]),
        ("0_components_1", lambda a: a.astype(np.float32)),
        ("0_components_1", lambda a: np.hstack([a, a[:, :1]])),
    ],
)
def test_arrays_that_no_fit_writes_are_rejected(name: str, change: Any) -> None:
    op: Any = program().fit(frame(TEXTS)).fitted_.derivation.ops[0]  # type: ignore[union-attr]
    arrays = op.arrays()
    np.testing.assert_array_equal(op.with_arrays(arrays).arrays()[name], arrays[name])
    with pytest.raises(ValueError, match="of text_vectors is invalid"):
        op.with_arrays({**arrays, name: change(arrays[name])})
    with pytest.raises(KeyError):
        op.with_arrays({key: array for key, array in arrays.items() if key != name})


def test_invalid_utf8_is_rejected_with_the_column() -> None:
    offsets = pa.py_buffer(np.array([0, 4], np.int32))
    broken = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"caf\xe9"))
    with pytest.raises(SchemaError, match="column 'note' contains text that is not UTF-8"):
        program().fit(pa.table({"note": broken}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 1500}, "expected a power of 2; got 1500"),
        ({"ngrams": [1, 2]}, "also set analyzer to word or char"),
        ({"ngrams": [2, 1], "analyzer": "word"}, "minimum <= maximum <= 16"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OPS.get("text_vectors").model_validate({"columns": "note", **settings})
