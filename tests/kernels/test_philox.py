"""Random bits against the paper and NumPy, from any start."""

from __future__ import annotations

import numpy as np
import pytest

from gpupipe_kernels.draws.kernels import words_of
from gpupipe_kernels.draws.philox import fill, on_host


def test_the_reference_gives_the_known_answer_of_the_authors() -> None:
    answer = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert words_of(0, (0, 0)) == answer  # Random123's kat_vectors


@pytest.mark.parametrize(("start", "n"), [(0, 9), (1, 1), (3, 2), (4, 4), (6, 11), (2**20 + 5, 3), (7, 0)])
def test_any_rows_are_those_of_numpys_stream(start: int, n: int) -> None:
    key = np.array([2**64 - 1, 2**63 + 1], np.uint64)
    out = np.empty(n, np.uint64)
    fill(out, 2**64 - 1, 2**63 + 1, start)
    at = start - start % 4
    stream = np.random.Philox(key=key).advance(at // 4)  # in counters
    np.testing.assert_array_equal(out, stream.random_raw(start - at + n)[start - at :])
    np.testing.assert_array_equal(out, on_host(n, 2**64 - 1, 2**63 + 1, start))
