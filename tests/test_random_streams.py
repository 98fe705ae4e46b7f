"""Streams of random numbers: independent of a table's columns and of each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import gpupipe
from gpupipe.random_streams import Purpose, derive_seed, make_generator

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
ROOT = Path(gpupipe.__file__).parent
N = 20_000


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32 - 1])
def test_no_stream_is_that_of_the_seed_of_a_child_of_it_or_of_another_purpose(seed: int) -> None:
    sequences = [np.random.SeedSequence(seed), *np.random.SeedSequence(seed).spawn(40)]
    first = {np.random.default_rng(sequence).random() for sequence in sequences}
    first |= {np.random.default_rng([seed, k]).random() for k in range(40)} | {np.random.RandomState(seed).random()}
    ours = [make_generator(seed, purpose).random() for purpose in PURPOSES]
    ours += [make_generator(seed, "trials of a search", *position).random() for position in [(0,), (1,), (0, 1)]]
    assert len(first.union(ours)) == len(first) + len(ours)
    seeds = [derive_seed(seed, purpose) for purpose in PURPOSES]
    assert len({seed, *seeds}) == len(seeds) + 1
    assert 0 <= min(seeds) <= max(seeds) < 2**31


def test_streams_are_the_same_in_every_version_and_process() -> None:
    assert derive_seed(0, "model") == 1252817622
    assert make_generator(0, "test rows").integers(1_000_000) == 831987


@pytest.mark.parametrize("purpose", ["test rows", "validation rows", "early stopping"])
def test_streams_are_uncorrelated_with_the_columns_of_generators_with_the_seed(purpose: Purpose) -> None:
    ours = make_generator(0, purpose).random(N)
    legacy = np.random.RandomState(0)
    columns = [np.random.default_rng(0).random(N), np.random.default_rng(0).normal(size=N), legacy.rand(N)]
    correlations = [abs(np.corrcoef(ours, column)[0, 1]) for column in columns]
    assert max(correlations) < 5 / np.sqrt(N)  # 5 standard deviations


def test_the_product_draws_by_named_streams_only() -> None:
    """The generator of the sample datasets is excepted: its seed is that of a table."""
    own = re.compile(r"(?<!>>> rng = np\.random\.)(default_rng\(|SeedSequence\()")
    allowed = {"random_streams.py", "datasets/churn"}
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(tuple(allowed))
        for line in path.read_text().splitlines()
        if own.search(line) and ">>>" not in line
    ]
    assert not found
    used = "\n".join(path.read_text() for path in ROOT.rglob("*.py") if path.name != "random_streams.py")
    assert [purpose for purpose in PURPOSES if f'"{purpose}"' not in used] == []
