"""Random numbers for some rows of the churn generator, by tables: the same on the host and on a device."""

from __future__ import annotations

import zlib

from gpupipe.datasets.churn.population import BITS, CATEGORICALS, CELLS, MISSING, Population
from gpupipe.datasets.churn.quantile_tables import KNOTS
from gpupipe.typing import Array
from gpupipe_kernels.draws.philox import fill

# What 16 bits are enough for: four of these share a word, in this order.
SMALL = (*CATEGORICALS, "City", "tenure", "SupportCalls", *(f"{name} missing" for name in MISSING))
PER_WORD = 4


class Draws:
    """What is drawn for rows `start` to ``start + n_rows - 1`` of the table that `seed` names.

    Parameters
    ----------
    population : Population
        Its arrays, and so all that is returned, are NumPy's or a device's.
    seed, start, n_rows : int
    """

    def __init__(self, population: Population, seed: int, start: int, n_rows: int) -> None:
        self.population, self.xp = population, population.xp
        self.seed, self.start, self.n_rows = seed, start, n_rows
        self._words: dict[str, Array] = {}

    def words(self, stream: str) -> Array:
        """Return 64 random bits a row, as int64: what is done with them needs no sign."""
        if stream not in self._words:
            bits = self.xp.empty(self.n_rows, "uint64")
            fill(bits, self.seed, zlib.crc32(stream.encode()) << 32, self.start)
            self._words[stream] = bits.view("int64")
        return self._words[stream]

    def cell(self, name: str) -> Array:
        """Return for each row one of `CELLS` equally likely numbers: int64."""
        word, part = divmod(SMALL.index(name), PER_WORD)
        return (self.words(f"small {word}") >> (16 * part)) & (CELLS - 1)

    def code(self, name: str) -> Array:
        """Return codes of a column with the shares that it has in the population: int32."""
        return self.xp.take(self.population.levels(name), self.cell(name))

    def number(self, stream: str, curve: str = "") -> Array:
        """Return numbers of the law that a curve says: float64.

        Parameters
        ----------
        stream : str
            Two curves of one stream are functions of the same random number.
        curve : str
            That of the name of the stream by default.
        """
        begin, rise = self.population.curve(curve or stream)
        words = self.words(stream)
        at = (words >> BITS) & (KNOTS - 1)
        into = (words & ((1 << BITS) - 1)).astype("float64")
        # Each of these is an operation of its own: a product and a sum that are fused would be rounded once only.
        return self.xp.take(begin, at) + self.xp.take(rise, at) * into

    def is_missing(self, name: str) -> Array:
        """Return which values of a column are missing: bool."""
        return self.cell(f"{name} missing") < round(MISSING[name] * CELLS)

    def effect(self, name: str, codes: Array) -> Array:
        """Return what codes add to something: float64."""
        return self.xp.take(self.population.effects(name), codes)
