"""Networks as models of a run: their scores, also on difficult columns, and no side effects in the process."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, r2_score

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError, DataError, LimitError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.context import ValidationRows
from gpupipe.models.neural.settings import LEAST_BATCH, MOST_BATCH, Mlp, TabM
from tests.nightly import nightly_unless

QUICK: dict[str, dict[str, Any]] = {
    "mlp": {"width": 64, "depth": 2},
    "tabm": {"width": 32, "members": 4},
    "ft_transformer": {"embedding_size": 16, "hidden": 32},
}
TINY = {"width": 8, "depth": 1, "embedding_size": 4, "n_bins": 4}


def _context(X: Any, task: str = "binary", categorical: dict[int, int] | None = None, seed: int = 7) -> FitContext:
    names = [f"c{j}" for j in range(X.shape[1])]
    return FitContext(CpuBackend(), task, seed, 2 if task == "binary" else 0, categorical or {}, names)  # type: ignore[arg-type]


def _rows(n: int = 200, seed: int = 0) -> tuple[Any, Any]:
    """Three numbers, two categories of five ids, and a target that both say something of."""
    draw = np.random.default_rng(seed)
    numbers, ids = draw.normal(size=(n, 3)), draw.integers(0, 5, (n, 2))
    y = (numbers[:, 0] + 2 * (ids[:, 0] == 3) + 0.5 * draw.normal(size=n) > 0.5).astype(float)
    return np.asfortranarray(np.column_stack([numbers, ids]), np.float32), y


@pytest.mark.parametrize(
    ("task", "name"),
    nightly_unless(
        lambda task, name: (task, name) != ("binary", "ft_transformer"),  # four seconds
        product(("binary", "multiclass", "regression"), QUICK),
    ),
)
def test_a_network_is_about_as_good_as_a_linear_model(name: str, task: str, tables: dict[str, Any]) -> None:
    data = tables[task]
    # The few rows of the regression are overfitted soon, and fewer still choose the epoch.
    epochs = 15 if task == "regression" else 30
    model = MODELS.get(name)(batch_size=64, epochs=epochs, patience=None, learning_rate=5e-3, **QUICK[name])
    found = fit(model, data.X, data.y, data.context).predict(data.X_test)
    linear = fit(MODELS.get("ridge" if task == "regression" else "logistic_regression")(), data.X, data.y, data.context)
    expected = linear.predict(data.X_test)
    if task == "regression":
        assert r2_score(data.y_test, found.value) > r2_score(data.y_test, expected.value) - 0.15
    else:
        own, other = (log_loss(data.y_test, prediction.probability) for prediction in (found, expected))
        assert own < other + 0.15


def test_a_network_is_trained_again_on_all_rows() -> None:
    X, y = _rows(300)
    context = _context(X, categorical={3: 5, 4: 5})
    rates = {"batch_size": 50, "learning_rate": 0.03, "schedule": "constant", "warmup": 0.0}
    found = fit(Mlp(epochs=12, patience=2, **rates, **TINY), X, y, context, n_threads=1)
    n_epochs = int(np.argmin([epoch["validation"] for epoch in found.history])) + 1
    assert found.notes[1].startswith(f"trained again on all rows for {n_epochs} epoch")
    # The loss of the training rows falls in each epoch, so the last one is the best.
    known = replace(context, validation=ValidationRows(X, y))
    once = fit(Mlp(epochs=n_epochs, patience=None, **rates, **TINY), X, y, known, n_threads=1)
    assert f"best epoch {n_epochs}:" in once.notes[0]
    for name, value in once.estimator.state_dict().items():
        assert value.equal(found.estimator.state_dict()[name]), name


def test_given_validation_rows_choose_the_epoch_and_are_never_trained_on() -> None:
    X, y = _rows(300)
    context = _context(X[:200], categorical={3: 5, 4: 5})
    model = Mlp(epochs=1, batch_size=50, **TINY)
    fitted = [
        fit(model, X[:200], y[:200], replace(context, validation=ValidationRows(X[200:], target)), n_threads=1)
        for target in (y[200:], 1 - y[200:])
    ]
    first, second = (each.predict(X).probability for each in fitted)
    np.testing.assert_array_equal(first, second)
    assert fitted[0].history[0]["validation"] != fitted[1].history[0]["validation"]
    assert len(fitted[0].notes) == 1


def test_nothing_of_the_process_or_the_matrix_is_changed() -> None:
    X, y = _rows()
    given = X.copy()
    torch.manual_seed(5)
    generator, threads = torch.random.get_rng_state(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            fitted = fit(Mlp(epochs=2, **TINY), X, y, _context(X, categorical={3: 5, 4: 5}), n_threads=1)
            assert not torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), generator)
    np.testing.assert_array_equal(X, given)
    plain = fit(Mlp(epochs=2, **TINY), X, y, _context(X, categorical={3: 5, 4: 5}), n_threads=1)
    np.testing.assert_array_equal(fitted.predict(X).probability, plain.predict(X).probability)


def test_a_matrix_that_is_read_only_can_be_learned_from() -> None:
    X, y = _rows()
    expected = fit(Mlp(epochs=2, **TINY), X, y, _context(X, categorical={3: 5, 4: 5})).predict(X).probability
    X.flags.writeable = False
    found = fit(Mlp(epochs=2, **TINY), X, y, _context(X, categorical={3: 5, 4: 5})).predict(X).probability
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [Mlp, TabM])
def test_difficult_columns_do_not_prevent_learning(kind: type) -> None:
    X, y = _rows(400)
    most = np.finfo(np.float32).max
    wild = np.where(np.arange(400) % 50 == 0, most, np.where(np.arange(400) % 50 == 1, -most, X[:, 1]))
    hard = [np.full(400, 3.0), np.full(400, 1e30), X[:, 0] > 0, wild, X[:, 2] * 1e-40, np.zeros(400)]
    hard.append(np.where(X[:, 0] > 0, most, -most))  # their distance exceeds float32
    many = np.asfortranarray(np.column_stack([*hard, X]), np.float32)
    context = _context(many, categorical={10: 5, 11: 5})
    fitted = fit(kind(epochs=10, batch_size=32, learning_rate=1e-2, width=16), many, y, context)
    assert np.mean((fitted.predict(many).output > 0.5) == y) > 0.85
    beyond = many.copy()
    beyond[:, :10] *= -1
    assert np.isfinite(fitted.predict(beyond).output).all()


@pytest.mark.parametrize("name", list(QUICK))
@pytest.mark.parametrize("columns", [slice(0, 3), slice(3, 5)])
def test_numbers_or_categories_may_be_absent(name: str, columns: slice) -> None:
    X, y = _rows()
    part = np.asfortranarray(X[:, columns])
    context = _context(part, categorical={0: 5, 1: 5} if columns.start else {})
    fitted = fit(MODELS.get(name)(epochs=20, batch_size=16, learning_rate=1e-2), part, y, context)
    assert np.mean((fitted.predict(part).output > 0.5) == y) > 0.75


def test_an_id_that_was_never_seen_is_taken_for_the_mean_of_those_that_were() -> None:
    X, y = _rows()
    fitted = fit(Mlp(epochs=3, **TINY), X, y, _context(X, categorical={3: 9, 4: 5}))
    table = fitted.estimator.network.categories.table.weight.detach()
    torch.testing.assert_close(table[5:9], table[5:6].expand(4, -1))
    lowest, highest = table[:5].min(dim=0).values, table[:5].max(dim=0).values
    assert ((table[5] > lowest) & (table[5] < highest)).all()
    unseen = X.copy()
    unseen[:, 3] = 7
    assert np.isfinite(fitted.predict(unseen).output).all()


def test_a_constant_target_is_predicted() -> None:
    X, _ = _rows(40)
    value = fit(Mlp(epochs=30, **TINY), X[:, :3], np.full(40, 2024.0), _context(X[:, :3], "regression")).predict(
        X[:, :3]
    )
    assert value.value == pytest.approx(np.full(40, 2024.0), abs=0.5)


@pytest.mark.parametrize("n", [16, 17, 40])
def test_few_rows_are_enough_for_a_model(n: int) -> None:
    X, y = _rows(n)
    assert len(np.unique(y)) == 2
    fitted = fit(TabM(epochs=2), X, y, _context(X, categorical={3: 5, 4: 5}))
    assert np.isfinite(fitted.predict(X).output).all()


def test_rows_with_zero_weight_have_no_effect() -> None:
    X, y = _rows()
    weight = (np.arange(200) >= 40).astype(float)
    context = _context(X, categorical={3: 5, 4: 5})
    weighted = fit(Mlp(epochs=3, **TINY), X, y, context, sample_weight=weight)
    fewer = fit(Mlp(epochs=3, **TINY), np.asfortranarray(X[40:]), y[40:], context)
    np.testing.assert_allclose(weighted.predict(X).output, fewer.predict(X).output, atol=1e-6)
    with pytest.raises(DataError, match="there are 10"):
        fit(Mlp(**TINY), X, y, context, sample_weight=(np.arange(200) >= 190).astype(float))


def test_balanced_class_weights_raise_the_probability_of_the_rare_class() -> None:
    X, y = _rows(600)
    rare = np.flatnonzero((y == 0) | (np.arange(600) % 8 == 0))
    X, y = np.asfortranarray(X[rare]), y[rare]
    context = replace(_context(X, categorical={3: 5, 4: 5}), class_labels=["0", "1"])
    settings = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-2, **TINY}
    plain, balanced, zero = (
        fit(Mlp(class_weight=given, **settings), X, y, context).predict(X).output.mean()
        for given in (None, "balanced", {"0": 1.0, "1": 0.0})
    )
    assert zero < plain / 2
    assert balanced > plain + 0.1


def test_the_seed_decides_the_bytes_that_are_predicted() -> None:
    X, y = _rows()
    one, again, other = (
        fit(Mlp(epochs=2, **TINY), X, y, _context(X, categorical={3: 5, 4: 5}, seed=seed)).predict(X).output
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_too_few_rows_wrong_columns_and_nan_are_errors() -> None:
    X, y = _rows()
    with pytest.raises(DataError, match="16 training rows"):
        fit(Mlp(), X[:15], y[:15], _context(X))
    with pytest.raises(ConfigError, match="embedding"):
        fit(Mlp(), X, y, _context(X, categorical={0: 5}))
    X[0:50, 0] = np.nan
    with pytest.raises(ConfigError, match="nan"):
        fit(Mlp(epochs=2, **TINY), X, y, _context(X))


def test_too_little_memory_for_a_single_row_is_a_limit(short_of_memory) -> None:
    X, y = _rows()
    with short_of_memory(0), pytest.raises(LimitError, match="Mlp"):
        fit(Mlp(**TINY), X, y, _context(X))


def test_the_notes_describe_the_training(short_of_memory) -> None:
    X, y = _rows()
    with short_of_memory(30):
        fitted = fit(Mlp(epochs=3, batch_size=100, **TINY), X, y, _context(X))
    assert "3 epochs in batches of 100 rows, float32; best epoch" in fitted.notes[0]
    assert "trained again on all rows for" in fitted.notes[1]
    assert "micro-batches of 25 rows" in fitted.notes[2]
    assert [set(epoch) for epoch in fitted.history] == [{"training", "validation"}] * 3


def test_a_batch_is_sized_by_the_rows() -> None:
    sizes = [Mlp().rows_per_batch(n) for n in (10, 20_000, 100_000, 10**7)]
    assert sizes == [LEAST_BATCH, 256, 1024, MOST_BATCH]
    assert Mlp(batch_size=33).rows_per_batch(10) == 33
