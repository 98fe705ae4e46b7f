"""Row numbers in messages: those of the whole table, whatever the chunk."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from gpupipe.table.row_numbers import CellsError, RowNumbers


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowNumbers.of(np.arange(5) == 3), "data row 3"),
        (RowNumbers.of(np.arange(5) > 2), "2 data rows: 3, 4"),
        (RowNumbers.of(np.arange(2000) > 1994), "5 data rows: 1,995, 1,996, 1,997, 1,998, 1,999"),
        (RowNumbers.of(np.ones(20, bool)), "20 data rows: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."),
        (RowNumbers((3,)), "data row 3"),
        (RowNumbers((3, 8)), "data rows 3, 8"),
        (RowNumbers(tuple(range(10))), "data rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."),
    ],
)
def test_rows_in_words(rows: RowNumbers, text: str) -> None:
    assert str(rows) == text


def test_an_error_in_a_chunk_is_that_of_the_table_also_in_another_process() -> None:
    error = CellsError(
        [("'x' in column 'a'", RowNumbers((3,))), ("'y' in column 'b'", RowNumbers((3, 33))), ("more", None)]
    )
    error.count_after(30)
    restored = pickle.loads(pickle.dumps(error))
    restored.count_after(1000)
    assert error.what == "'x' in column 'a' in data row 33\n'y' in column 'b' in data rows 33, 63\nmore"
    assert restored.what.splitlines()[0] == "'x' in column 'a' in data row 1,033"
    assert "rows are counted from 0" in str(restored)
