"""Scans over the bytes of one text, and their formulas, shared by the host and device loops."""

from __future__ import annotations

import math

import numpy as np

from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.text.characters import (
    CONTINUATION,
    DIGIT,
    LAST_CODE_POINT,
    LETTER,
    PUNCTUATION,
    SPACE,
    UPPER,
    WORD,
)
from gpupipe_kernels.text.numpy.counts import LINE_FEED, TextCount
from gpupipe_kernels.text.numpy.grams import GramValue
from gpupipe_kernels.text.numpy.items import BLANK, Analyzer

BINARY, LOG = int(GramValue.BINARY), int(GramValue.LOG)
BY_WORD, BY_RUN = int(Analyzer.WORD), int(Analyzer.CHAR_WB)
CHARACTERS, BYTES, WORDS, LINES, LETTERS, UPPERCASE, DIGITS, MARKS, SPACES = (int(count) for count in TextCount)


@formula
def code_point(lead, second, third, fourth):
    """Return the code point of a character from its first byte and the next three, limited to the last code point."""
    if lead < 0xE0:
        code = (lead & 0x1F) << 6 | second & 0x3F
    elif lead < 0xF0:
        code = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
    else:
        code = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | fourth & 0x3F
    return min(code, LAST_CODE_POINT)


@formula
def scramble(k):
    """Return a block of four bytes, mixed for MurmurHash3."""
    k = np.uint32(k * np.uint32(0xCC9E2D51))
    k = np.uint32(np.uint32(k << np.uint32(15)) | (k >> np.uint32(17)))
    return np.uint32(k * np.uint32(0x1B873593))


@formula
def absorb(h, k, n, byte):
    """Return (hash, open block) of MurmurHash3 after one more byte, preceded by `n` bytes."""
    k = np.uint32(k | np.uint32(np.uint32(byte) << np.uint32(8 * (n & 3))))
    if n & 3 == 3:
        h = np.uint32(h ^ scramble(k))
        h = np.uint32(np.uint32(h << np.uint32(13)) | (h >> np.uint32(19)))
        h = np.uint32(np.uint32(h * np.uint32(5)) + np.uint32(0xE6546B64))
        k = np.uint32(0)
    return h, k


@formula
def finish(h, k, n):
    """Return the hash of the `n` bytes absorbed so far, uint32; more bytes can still be absorbed."""
    h = np.uint32(np.uint32(h ^ scramble(k)) ^ np.uint32(n))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@formula
def bucket(h, n_buckets):
    """Return the bucket of a hash: its absolute value as a signed integer, modulo the number of buckets."""
    magnitude = np.uint32(~h + np.uint32(1)) if h >> np.uint32(31) else np.uint32(h)
    return np.int64(magnitude % np.uint32(n_buckets))


@formula
def counted(old, h, signed, value):
    """Return the value of a bucket after one more n-gram of hash `h`."""
    if value == BINARY:
        return np.float32(1.0)
    return old - np.float32(1.0) if signed and h >> np.uint32(31) else old + np.float32(1.0)


@array_formula
def kind_at(data, classes, p):
    """Return the class bits of byte `p`; see `gpupipe_kernels.text.characters.byte_kinds`."""
    if data[p] < 0x80:
        kind = classes[data[p]]
    else:
        lead, last = p, data.size - 1
        while data[lead] & 0xC0 == 0x80 and lead > 0 and lead > p - 3:
            lead -= 1
        first = np.int64(data[lead])
        second = np.int64(data[lead + 1]) if lead < last else 0
        third = np.int64(data[lead + 2]) if lead + 1 < last else 0
        fourth = np.int64(data[lead + 3]) if lead + 2 < last else 0
        kind = np.uint8(classes[code_point(first, second, third, fourth)] | (CONTINUATION if lead < p else 0))
        if first < 0xC0 or p - lead > 1 + (first >= 0xE0) + (first >= 0xF0):
            kind = np.uint8(0)
    return kind


@array_formula
def skip(kinds, p, end, bit, wanted):
    """Return the first position from `p` on whose class `bit` differs from `wanted`, or `end`."""
    while p < end and (kinds[p] & bit > 0) == wanted:
        p += 1
    return p


@array_formula
def count_gram(out, i, h, signed, value):
    """Count an n-gram with hash `h` in column `i` of `out`."""
    b = bucket(h, out.shape[0])
    out[b, i] = counted(out[b, i], h, signed, value)


@array_formula
def hash_words(data, kinds, begin, end, n_min, n_max, signed, value, out, i):
    """Count the word n-grams of ``data[begin:end]`` in column `i` of `out`, shape (buckets, texts)."""
    first = skip(kinds, begin, end, WORD, False)
    while first < end:
        h, k, n, p, second = np.uint32(0), np.uint32(0), 0, first, end
        for size in range(1, n_max + 1):
            stop = skip(kinds, p, end, WORD, True)
            for q in range(p if size == 1 else p - 1, stop):
                h, k = absorb(h, k, n, BLANK if q < p else data[q])
                n += 1
            if size >= n_min:
                count_gram(out, i, finish(h, k, n), signed, value)
            p = skip(kinds, stop, end, WORD, False)
            if size == 1:
                second = p
            if p == end:
                break
        first = second


@array_formula
def hash_characters(data, kinds, begin, end, pad, n_min, n_max, signed, value, out, i):
    """Count the character n-grams of ``data[begin:end]`` in column `i` of `out`.

    With `pad` 1, a blank is added before and after the text, and a padded text of fewer than `n_min` characters counts
    as a whole.
    """
    first = begin - pad
    while first < end + pad:
        h, k, n, p, second = np.uint32(0), np.uint32(0), 0, first, end + pad
        for size in range(1, n_max + 1):
            is_padding = p < begin or p == end
            stop = p + 1 if is_padding else skip(kinds, p + 1, end, CONTINUATION, True)
            behind = stop
            if not is_padding and kinds[p] & SPACE:
                behind = skip(kinds, stop, end, SPACE, True)
            is_blank = is_padding or behind > stop  # several white-space characters are one blank
            for q in range(p, p + 1 if is_blank else stop):
                h, k = absorb(h, k, n, BLANK if is_blank else data[q])
                n += 1
            p = behind
            if size == 1:
                second = p
            if size >= n_min or (first < begin and p > end):
                count_gram(out, i, finish(h, k, n), signed, value)
            if p >= end + pad:
                break
        first = second


@array_formula
def hash_text(data, kinds, begin, end, analyzer, n_min, n_max, signed, value, l2, out, i):
    """Write the vector of ``data[begin:end]`` to column `i` of `out`, shape (buckets, texts); see `grams.Grams`."""
    for b in range(out.shape[0]):
        out[b, i] = np.float32(0.0)
    if analyzer == BY_WORD:
        hash_words(data, kinds, begin, end, n_min, n_max, signed, value, out, i)
        begin = end
    while begin < end:
        stop = end
        if analyzer == BY_RUN:
            begin = skip(kinds, begin, end, SPACE, True)
            stop = skip(kinds, begin, end, SPACE, False)
        if begin < stop:
            pad = np.int64(analyzer == BY_RUN)
            hash_characters(data, kinds, begin, stop, pad, n_min, n_max, signed, value, out, i)
        begin = stop
    if value == LOG or l2:
        weigh(out, i, value, l2)


@formula
def weight(count, value):
    """Return the unscaled float64 value of a bucket with this count of n-grams."""
    x = np.float64(count)
    return math.copysign(math.log1p(abs(x)), x) if value == LOG else x


@array_formula
def weigh(out, i, value, l2):
    """Replace the counts in column `i` of `out` by their weights, computed in float64 like `grams.weigh_counts`."""
    squares = np.float64(0.0)
    for b in range(out.shape[0]):
        if out[b, i] != 0:
            x = weight(out[b, i], value)
            squares += x * x
    length = math.sqrt(squares) if l2 and squares > 0 else np.float64(1.0)
    for b in range(out.shape[0]):
        if out[b, i] != 0:
            out[b, i] = np.float32(weight(out[b, i], value) / length)


@array_formula
def count_text(data, kinds, begin, end, out, i):
    """Write the counts of ``data[begin:end]`` to column `i` of `out`, shape (len(Count), texts)."""
    characters, words, lines, letters, uppercase, digits, marks, spaces = 0, 0, 0, 0, 0, 0, 0, 0
    was_word = False
    for p in range(begin, end):
        kind = kinds[p]
        if kind & CONTINUATION == 0:
            characters += 1
            letters += kind & LETTER > 0
            uppercase += kind & UPPER > 0
            digits += kind & DIGIT > 0
            marks += kind & PUNCTUATION > 0
            spaces += kind & SPACE > 0
        is_word = kind & WORD > 0
        words += is_word and not was_word
        was_word = is_word
        lines += data[p] == LINE_FEED
    out[CHARACTERS, i], out[BYTES, i], out[WORDS, i] = characters, end - begin, words
    out[LINES, i] = lines + (end > begin and data[end - 1] != LINE_FEED)
    out[LETTERS, i], out[UPPERCASE, i], out[DIGITS, i] = letters, uppercase, digits
    out[MARKS, i], out[SPACES, i] = marks, spaces
