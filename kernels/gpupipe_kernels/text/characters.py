"""Character classes per byte of a text, by a table of all code points.

The table is derived from Python's character database: word characters are ``\\w`` of the standard library's `re`, white
space is ``\\s``. Texts are UTF-8; invalid bytes have no class.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.typing import HostArray

WORD, SPACE, LETTER, UPPER, DIGIT, PUNCTUATION = (1 << bit for bit in range(6))
CONTINUATION = 128  # not the first byte of its character

LAST_CODE_POINT = 0x10FFFF
FIRST_WITHOUT_PUNCTUATION = 0x20000  # after it, only ideographs and private use: letters or no class

BLOCK_BYTES = 1 << 16


@cache
def classes(n_code_points: int = LAST_CODE_POINT + 1) -> npt.NDArray[np.uint8]:
    """Return the class bits of the first code points, shape (n_code_points,).

    WORD is ``str.isalnum`` or ``_``; SPACE, LETTER, UPPER and DIGIT are ``isspace``, ``isalpha``, ``isupper`` and
    ``isdecimal``; PUNCTUATION is the general categories P and S, for ASCII ``string.punctuation``.
    """
    characters = np.arange(n_code_points, dtype=np.uint32).view("U1")
    word, space = np.strings.isalnum(characters), np.strings.isspace(characters)
    found = word * np.uint8(WORD) | space * np.uint8(SPACE)
    found |= np.strings.isalpha(characters) * np.uint8(LETTER)
    found |= np.strings.isupper(characters) * np.uint8(UPPER)
    found |= np.strings.isdecimal(characters) * np.uint8(DIGIT)
    others = np.flatnonzero(~(word | space)[:FIRST_WITHOUT_PUNCTUATION]).tolist()
    found[[code for code in others if unicodedata.category(chr(code))[0] in "PS"]] |= PUNCTUATION
    found[ord("_")] |= WORD
    found.flags.writeable = False  # one shared table
    return found


def byte_kinds(data: HostArray) -> npt.NDArray[np.uint8]:
    """Return the class bits of each byte's character, with CONTINUATION on all bytes after the first.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        UTF-8. A continuation byte without a leading byte has no class.

    Returns
    -------
    ndarray of uint8, shape (bytes,)
    """
    table = np.zeros(256, np.uint8)
    table[:128] = classes(128)  # enough for most texts
    kinds = table[data]
    leads = np.flatnonzero(data >= 0xC0)
    if len(leads) == 0:
        return kinds
    after = np.concatenate([data, np.zeros(3, np.uint8)])
    lead = data[leads].astype(np.int32)
    width = 2 + (lead >= 0xE0) + (lead >= 0xF0)
    code = lead & (0xFF >> (width + 1))
    for i in (1, 2, 3):
        code = np.where(i < width, code << 6 | (after[leads + i] & 0x3F), code)
    kinds[leads] = classes()[np.minimum(code, LAST_CODE_POINT)]
    inside = leads
    for i in (1, 2, 3):
        inside = inside[(i < width[np.searchsorted(leads, inside)]) & (after[inside + i] & 0xC0 == 0x80)]
        kinds[inside + i] = kinds[inside] | CONTINUATION
    return kinds


def blocks(offsets: HostArray, most_texts: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield runs of texts short enough for NumPy's temporaries to fit into the cache; texts are never split."""
    start, n_texts = 0, len(offsets) - 1
    while start < n_texts:
        full = int(np.searchsorted(offsets, offsets[start] + BLOCK_BYTES, "right")) - 1
        stop = min(max(full, start + 1), start + most_texts, n_texts)
        yield slice(start, stop)
        start = stop
