"""Products and powers of columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, groupby
from math import comb

from pydantic import Field

from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.ops.base import OPS, SelectingOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, combine
from gpupipe.names import count_noun

MOST_TERMS = 1024


@OPS.register("polynomial")
class Polynomial(SelectingOp):
    """Add every product of up to `degree` columns: ``a^2``, ``a b``, ``b^2``.

    Names and order are those of scikit-learn's PolynomialFeatures without the constant. Null where a factor is null,
    and where the product exceeds float32 (3.4e38). Standardize the columns first to get products of deviations, which
    correlate less with the columns themselves.

    Output: one column for each product, float32; at most 1,024. The columns remain features.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
        >>> program = FeatureProgram([{"polynomial": "@numeric"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
             a    b  a^2   a b   b^2
        0  1.0  4.0  1.0   4.0  16.0
        1  2.0  5.0  4.0  10.0  25.0
        2  3.0  6.0  9.0  18.0  36.0
    """

    degree: int = Field(2, ge=2, le=5, description="Maximum number of factors in a product.")
    interaction_only: bool = Field(False, description="Use each column at most once in a product: no powers.")

    def apply(self, builder: ProgramBuilder) -> None:
        """Add all products."""
        columns = builder.select_numbers(self.columns, "polynomial")
        self._check(len(columns))
        for factors in self._terms(columns):
            builder.add(_product(factors))

    def _check(self, n: int) -> None:
        """Raise if there is no product, or more than `MOST_TERMS`."""
        degrees = range(2, self.degree + 1)
        n_terms = sum(comb(n if self.interaction_only else n + degree - 1, degree) for degree in degrees)
        if not n_terms:
            raise ConfigError(
                f"polynomial of {count_noun(n, 'column')} with interaction_only has no products",
                fix="select more columns",
            )
        if n_terms > MOST_TERMS:
            raise LimitError(
                f"polynomial: {n} columns have {n_terms:,} products; maximum {MOST_TERMS:,}",
                fix="select fewer columns" + (" or a lower degree" if self.degree > 2 else ""),
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
