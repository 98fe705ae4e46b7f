"""Splitting of texts into contiguous words or characters, so that an n-gram is a slice of bytes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from gpupipe_kernels.text.characters import CONTINUATION, SPACE, WORD, byte_kinds
from gpupipe_kernels.typing import HostArray

BLANK = 32


class Analyzer(IntEnum):
    """The items of n-grams; the names are scikit-learn's."""

    WORD = 0  # n words (runs of word characters), separated by blanks
    CHAR = 1  # n characters; two or more white-space characters are one blank
    CHAR_WB = 2  # n characters of a run without white space, padded with a blank at both ends; the whole run if shorter


class Items(NamedTuple):
    """A sequence of words or characters: item i is ``stream[starts[i]:stops[i]]`` and belongs to run ``runs[i]``."""

    stream: HostArray
    starts: HostArray
    stops: HostArray
    runs: HostArray  # all items of an n-gram are in one run
    texts: HostArray  # the text of each run


def items_of(data: HostArray, offsets: HostArray, analyzer: int) -> Items:
    """Return the words or characters of all texts, concatenated."""
    kinds = byte_kinds(data)
    n_texts = len(offsets) - 1
    texts = np.repeat(np.arange(n_texts), np.diff(offsets))
    if analyzer == Analyzer.WORD:
        return _words(data, kinds & WORD > 0, texts, n_texts)
    starts = np.flatnonzero(kinds & CONTINUATION == 0)
    lengths = np.diff(starts, append=len(data))
    spaces, texts = kinds[starts] & SPACE > 0, texts[starts]
    if analyzer == Analyzer.CHAR:
        return _characters(data, starts, lengths, spaces, texts, n_texts)
    return _padded_characters(data, starts, lengths, spaces, texts)


def _words(data: HostArray, inside: HostArray, texts: HostArray, n_texts: int) -> Items:
    begins = inside & ~(_before(inside) & _same_as_before(texts))
    lengths = np.bincount(np.cumsum(begins)[inside] - 1)
    words = np.flatnonzero(begins)
    # A blank after each word.
    sources = np.stack([words, np.full_like(words, len(data))], axis=1).ravel()
    stream, starts, stops = _joined(data, sources, np.stack([lengths, np.ones_like(lengths)], axis=1).ravel())
    return Items(stream, starts[::2], stops[::2], texts[words], np.arange(n_texts))


def _characters(
    data: HostArray, starts: HostArray, lengths: HostArray, spaces: HostArray, texts: HostArray, n_texts: int
) -> Items:
    goes_on = spaces & _before(spaces) & _same_as_before(texts)
    begins = np.append(goes_on[1:], False)[: len(starts)] & ~goes_on  # several white-space characters become one blank
    starts, lengths = np.where(begins, len(data), starts), np.where(begins, 1, lengths)
    kept = np.flatnonzero(~goes_on)
    return Items(*_joined(data, starts[kept], lengths[kept]), texts[kept], np.arange(n_texts))


def _padded_characters(
    data: HostArray, starts: HostArray, lengths: HostArray, spaces: HostArray, texts: HostArray
) -> Items:
    begins = ~spaces & ~(_before(~spaces) & _same_as_before(texts))
    first = np.flatnonzero(begins[~spaces])
    starts = starts[~spaces]
    lengths = lengths[~spaces]
    runs = np.cumsum(begins)[~spaces] - 1
    edges = np.stack([first, np.append(first[1:], len(starts))[: len(first)]], axis=1).ravel()
    sources, widths = np.insert(starts, edges, len(data)), np.insert(lengths, edges, 1)
    padded = np.insert(runs, edges, np.repeat(np.arange(len(first)), 2))
    return Items(*_joined(data, sources, widths), padded, texts[begins])


def _before(flags: HostArray) -> HostArray:
    return np.append(False, flags)[:-1]


def _same_as_before(texts: HostArray) -> HostArray:
    return np.append(False, texts[1:] == texts[:-1])[: len(texts)]


def _joined(data: HostArray, sources: HostArray, widths: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Return the slices ``data[source:source + width]`` concatenated, with the start and stop of each.

    A source after the last byte is a blank.
    """
    stops = np.cumsum(widths)
    starts = stops - widths
    bytes_of = np.repeat(sources - starts, widths) + np.arange(int(widths.sum()))
    return np.append(data, np.uint8(BLANK))[bytes_of], starts, stops
