"""Work and rooflines, against counts made another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.models.neural.architecture import Architecture
from gpupipe.plan.gpu_choice.estimates import RowRange, measure_core, smaller_from
from gpupipe.plan.gpu_choice.roofline import Peaks, Rate, roofline_seconds
from gpupipe.plan.gpu_choice.stage_times import TimeRange
from gpupipe.plan.gpu_choice.work import CELL, Work, boosting, forest, logistic, network_weights

amounts = st.floats(0, 1e15)
works = st.builds(Work, amounts, amounts, amounts, amounts, st.floats(0, 1e6))
speeds = st.floats(1e6, 1e15)
peaks = st.builds(Peaks, speeds, speeds, speeds, speeds)
shares = st.floats(0.01, 1)
rates = st.builds(Rate, shares, shares, st.floats(0, 1e-2), st.floats(0, 1))


@given(works, works, peaks, rates)
def test_more_work_never_takes_less_and_no_limit_is_beaten(work, more, peak, rate):
    seconds = roofline_seconds(work, peak, rate)
    assert roofline_seconds(work + more, peak, rate) >= seconds * (1 - 1e-9)
    for least in (
        work.n_bytes / peak.bandwidth,
        work.flops / peak.flops + work.double_flops / peak.double_flops + work.tensor_flops / peak.tensor_flops,
        work.n_steps * rate.step,
        rate.start,
    ):
        assert seconds >= least * (1 - 1e-9)


def test_one_core_copies_and_multiplies():
    core = measure_core()
    assert 1e8 < core.bandwidth < 1e12
    assert 1e8 < 1.2 * core.double_flops < core.flops < 1e13  # twice as many float32 fit a register


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_cells_of_boosting_are_at_least_those_of_balanced_trees(depth):
    """A tree that halves its rows builds one histogram of all rows, and one of half of them for each further level."""
    rows = np.arange(4096)
    nodes, built = [rows], len(rows)
    for _ in range(depth - 1):
        children = [half for node in nodes for half in np.array_split(node, 2)]
        built += sum(len(half) for half in children[::2])
        nodes = children
    without_columns = boosting({"n_estimators": 1, "max_depth": depth}, 4096, 0, 1, by_leaf=False).n_bytes
    params = {"n_estimators": 1, "max_depth": depth, "max_bin": 1e-9}
    counted = boosting(params, 4096, 1, 1, by_leaf=False).n_bytes - without_columns - 10 * 4 * 4096
    assert counted == pytest.approx(CELL * built, rel=1e-6)


def test_a_hessian_counts_the_operations_of_its_matrix_product():
    n_rows, n_columns = 1000, 30
    X = np.ones((n_rows, n_columns))
    _, report = np.einsum_path("ni,nj->ij", X, X, optimize=False)  # message of NumPy
    (line,) = [line for line in report.splitlines() if "Naive FLOP count" in line]
    per_iteration = logistic(
        {"solver": "newton-cholesky", "max_iter": 1}, n_rows, n_columns, 1, on_device=False
    ).double_flops
    assert per_iteration == pytest.approx(float(line.split(":")[1]), rel=1e-3)


def test_a_forest_on_the_host_orders_the_values_of_each_level():
    """n values in 2**l nodes take n log2(n / 2**l) comparisons."""
    found = forest({"n_estimators": 3, "max_depth": 4, "max_features": 0.5}, 1024, 10, on_device=False, is_random=False)
    assert found.flops == 3 * 5 * 1024 * (10 + 9 + 8 + 7)


@pytest.mark.parametrize("kind", ["mlp", "tabm"])
def test_weights_of_a_network_are_those_of_its_layers(kind):
    torch = pytest.importorskip("torch")
    from gpupipe.models.neural.modules import Network

    members = 4 if kind == "tabm" else 1
    shape = Architecture(kind, 5, (7, 3), 1, n_bins=8, embedding_size=16, depth=3, width=64, members=members)
    with torch.device("meta"):  # without memory
        network = Network(shape)
    layers = [each for each in network.modules() if isinstance(each, torch.nn.Linear)]
    weights = members * sum(each.weight.numel() for each in layers)
    assert network.numbers is not None
    weights += network.numbers.weight.numel()  # an identifier only selects a vector
    assert network_weights(shape)[0] == pytest.approx(weights, rel=0.01)


ranges = st.tuples(st.floats(0, 10), st.floats(0, 10)).map(lambda pair: TimeRange(*sorted(pair)))


@given(st.lists(st.tuples(ranges, ranges), min_size=1, max_size=6))
def test_rows_from_which_a_range_is_smaller(pairs):
    ours, theirs = ({n: pair[i] for n, pair in enumerate(pairs)} for i in (0, 1))

    def first(holds):
        return next((n for n in range(len(pairs)) if all(holds(*pair) for pair in pairs[n:])), None)

    expected = RowRange(first(lambda a, b: a.low < b.high), first(lambda a, b: a.high < b.low))
    assert smaller_from(ours, theirs) == expected
    assert smaller_from({**ours, 99: None}, {**theirs, 99: TimeRange(1, 1)}) is None
    assert math.inf > (expected.certain or 0) >= (expected.possible or 0) or expected.certain is None
