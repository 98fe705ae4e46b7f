"""Random bits as a function of (seed, stream, row), identical on CPU and GPU."""

WORDS = 4
"""Words of random bits that Philox makes of one counter."""
