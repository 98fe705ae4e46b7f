"""Counts of characters, words and digits in NumPy: the readable reference, also used for small inputs."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.text.characters import (
    CONTINUATION,
    DIGIT,
    LETTER,
    PUNCTUATION,
    SPACE,
    UPPER,
    WORD,
    blocks,
    byte_kinds,
)
from gpupipe_kernels.typing import HostArray

LINE_FEED = 10


class TextCount(IntEnum):
    """A count of a text; its number is its row in the result."""

    CHARACTERS = 0
    BYTES = 1
    WORDS = 2  # runs of word characters
    LINES = 3  # line feeds, plus a last line without one
    LETTERS = 4
    UPPERCASE = 5
    DIGITS = 6
    PUNCTUATION = 7  # and symbols
    SPACES = 8  # white space of any kind


CLASSES = {  # counts of the characters of one class
    TextCount.LETTERS: LETTER,
    TextCount.UPPERCASE: UPPER,
    TextCount.DIGITS: DIGIT,
    TextCount.PUNCTUATION: PUNCTUATION,
    TextCount.SPACES: SPACE,
}


def count_characters(data: HostArray, offsets: HostArray) -> npt.NDArray[np.float32]:
    """Return every `TextCount` of each text.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        UTF-8.
    offsets : ndarray of int64, shape (texts + 1,)
        Text i is ``data[offsets[i]:offsets[i + 1]]``.

    Returns
    -------
    ndarray of float32, shape (len(Count), texts)
    """
    counts = np.zeros((len(TextCount), len(offsets) - 1), np.float32)
    for block in blocks(offsets):
        _count_block(data, offsets[block.start : block.stop + 1], counts[:, block])
    return counts


def _count_block(data: HostArray, offsets: HostArray, counts: HostArray) -> None:
    first = int(offsets[0])
    data, offsets = data[first : int(offsets[-1])], offsets - first
    kinds = byte_kinds(data)
    is_first = kinds & CONTINUATION == 0
    is_word, begins = kinds & WORD > 0, np.zeros(len(data), bool)
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    counts[TextCount.CHARACTERS] = _total(is_first, offsets)
    counts[TextCount.BYTES] = np.diff(offsets)
    counts[TextCount.WORDS] = _total(is_word & (begins | ~np.append(False, is_word)[:-1]), offsets)
    counts[TextCount.LINES] = _total(data == LINE_FEED, offsets) + _has_open_line(data, offsets)
    for count, bit in CLASSES.items():
        counts[count] = _total(is_first & (kinds & bit > 0), offsets)


def _total(flags: HostArray, offsets: HostArray) -> HostArray:
    """Return the number of set flags per text."""
    before: HostArray = np.append(0, np.cumsum(flags))[offsets]
    return np.diff(before)


def _has_open_line(data: HostArray, offsets: HostArray) -> HostArray:
    last = np.append(np.uint8(LINE_FEED), data)[offsets[1:]]  # the byte before the end
    is_open: HostArray = (last != LINE_FEED) & (np.diff(offsets) > 0)
    return is_open
