"""Strings that are read as missing values, the same in every format.

These strings, ignoring surrounding whitespace, are null in CSV, JSON lines, Parquet, ORC and Arrow: a model trained on
one format may score another. All functions work on the distinct values of a dictionary, not on rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import scalar, text_array
from gpupipe.table.schema import NULL_VALUES

TEXT = pa.dictionary(pa.int32(), pa.string())


def clean_texts(
    column: pa.ChunkedArray, null_values: Sequence[str] = NULL_VALUES, strip: bool = False
) -> tuple[pa.ChunkedArray, list[str]]:
    """Return a dictionary column with missing values as null, and the strings that were replaced.

    `column` is a dictionary of strings with int32 indices. With `strip`, leading and trailing whitespace is stripped
    from every string.
    """
    chunks, gone = [], set()
    nulls = text_array(null_values)
    for chunk in column.chunks:
        levels = _clean_levels(chunk.dictionary, nulls, strip)
        if levels is not None:
            gone.update(chunk.dictionary.filter(pc.is_null(levels)).to_pylist())
            chunk = relabel(chunk, levels)
        chunks.append(chunk)
    return pa.chunked_array(chunks, TEXT), sorted(text for text in gone if text is not None)


def _clean_levels(levels: pa.StringArray, nulls: pa.StringArray, strip: bool) -> pa.StringArray | None:
    """Return the cleaned levels, or None if they are already clean."""
    trimmed = pc.utf8_trim_whitespace(levels)
    missing = pc.is_in(trimmed, value_set=nulls)
    any_missing = pc.any(missing).as_py() or levels.null_count
    if not any_missing and (not strip or trimmed.equals(levels)):
        return None
    return pc.if_else(missing, scalar(None, pa.string()), trimmed if strip else levels)


def relabel(chunk: pa.DictionaryArray, levels: pa.StringArray) -> pa.DictionaryArray:
    """Return `chunk` with its dictionary replaced by `levels`; null levels are removed and equal ones merged."""
    coded = levels.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.take(chunk.indices), coded.dictionary)
