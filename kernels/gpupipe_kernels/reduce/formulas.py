"""Formulas per row, shared by the host and device loops."""

from __future__ import annotations

from numpy import uint32, uint64

from gpupipe_kernels.launch import formula


@formula
def mixed(h):
    """Return `gpupipe_kernels.formulas.hashes.mix` of one number."""
    h ^= h >> uint32(16)
    h = uint32(h * uint32(0x85EBCA6B))
    h ^= h >> uint32(13)
    h = uint32(h * uint32(0xC2B2AE35))
    return h ^ (h >> uint32(16))


@formula
def fold_of(row, bits, n_folds):
    """Return the fold of a row, in 1..n_folds: the hash as a fraction of 2**32, scaled without a division."""
    h = mixed(uint32(mixed(uint32(row)) + uint32(bits)))
    return ((uint64(h) * uint64(n_folds)) >> uint64(32)) + uint64(1)
