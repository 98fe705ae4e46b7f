"""Products of columns with each other and with themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, groupby
from math import comb

from pydantic import Field

from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.ops.base import OPS, SelectingOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, combine

MOST_TERMS = 1024


@OPS.register("polynomial")
class Polynomial(SelectingOp):
    """Make every product of up to `degree` columns: ``a^2``, ``a b``, ``b^2``.

    Names and order are those of scikit-learn's PolynomialFeatures, without the constant; the columns stay features of
    their own. Null where one of them is, and where the product is too large for float32 (3.4e38). Standardize the
    columns before, and a product is of what two columns deviate together.
    """

    degree: int = Field(2, ge=2, le=5, description="Most factors of a product.")
    interaction_only: bool = Field(False, description="No column twice in a product.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add all products."""
        columns = builder.select_numbers(self.columns, "polynomial")
        self._check(len(columns))
        for factors in self._terms(columns):
            builder.add(_product(factors))

    def _check(self, n: int) -> None:
        """Raise unless there is at least one product, and not too many."""
        degrees = range(2, self.degree + 1)
        n_terms = sum(comb(n if self.interaction_only else n + degree - 1, degree) for degree in degrees)
        if not n_terms:
            raise ConfigError(f"polynomial of {n} columns has no products", fix="select more columns")
        if n_terms > MOST_TERMS:
            raise LimitError(
                f"polynomial of {n} columns has {n_terms:,} products up to degree {self.degree}, beyond {MOST_TERMS:,}",
                fix="select fewer columns" + (", or a lower degree" if self.degree > 2 else ""),
            )

    def _terms(self, columns: list[NumericExpr]) -> Iterator[tuple[NumericExpr, ...]]:
        choose = combinations if self.interaction_only else combinations_with_replacement
        for degree in range(2, self.degree + 1):
            yield from choose(columns, degree)


def _product(factors: tuple[NumericExpr, ...]) -> NumericExpr:
    powers = [(name, len(list(same))) for name, same in groupby(factor.name for factor in factors)]
    name = " ".join(name if power == 1 else f"{name}^{power}" for name, power in powers)
    made = factors[0]
    for factor in factors[1:]:
        made = combine(name, "MULTIPLY", (made, factor))
    return made
