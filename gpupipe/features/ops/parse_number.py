"""Numbers in texts with units, percent signs, currencies and separators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.distinct_text_op import TextOp
from gpupipe.names import shorten
from gpupipe.table.number_texts import DecimalMark, NumberFormat, is_band
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.history.tables import DerivationSources

EXAMPLES = 3  # texts in a warning


@OPS.register("parse_number")
class ParseNumber(TextOp):
    """Read numbers from texts: ``$1,234.50``, ``12.5%``, ``(5.20)``, ``1,248 CC``, ``€ 1.234,50`` with a decimal comma.

    A text has one number, at most a sign, and units before or after it. Thousands may be separated by a comma, a blank,
    an apostrophe or ``_``, and by a point if the comma is decimal. Parentheses and the Unicode minus make a number
    negative. A percentage is the number that is written: ``12.5%`` is 12.5; with ``unit: {"%": 0.01}`` it is 0.125.

    A text without a unit is a number in the unit of the column. A text with another unit, a band such as ``<5``, or a
    text without a number is null, and a run reports how many rows have one. With ``bands: limit``, ``<5`` and ``5+``
    are 5, and ``10-20`` is 15, which keeps the order of the values, apart from ties at the limit. Nothing is learned:
    units are those of the settings, so that a text has the same value in every table.

    Output: ``price_number``; float32, null where the text is null or not a number. Takes text and categorical columns;
    declare the column as text, so that it is not a category too.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"price": ["$1,234.50", "($5.20)", "7", "7 EUR", None]})
        >>> ops = [{"parse_number": {"columns": "price", "unit": "$"}}]
        >>> program = FeatureProgram(ops, view="codes", schema={"price": "text"}).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           price_number
        0        1234.5
        1          -5.2
        2           7.0
        3           NaN
        4           NaN
    """

    OP: ClassVar[str] = "parse_number"
    NULL: ClassVar[float] = float("nan")

    unit: str | list[str] | dict[str, float] = Field(
        "", description="Unit of the texts; or several, or the factor of each: {kg: 1, g: 0.001}, {$: 1, k: 1000}."
    )
    decimal: DecimalMark = Field(".", description="Decimal mark of the texts.")

    bands: Literal["missing", "limit"] = Field(
        "missing", description="Number of a band such as <5, 65+ or 10-20: none, or its limit (of a range the middle)."
    )

    @field_validator("unit")
    @classmethod
    def _check_units(cls, value: str | list[str] | dict[str, float]) -> str | list[str] | dict[str, float]:
        for name, factor in _factors(value).items():
            if name != name.strip() or not name or not math.isfinite(factor) or factor == 0:
                raise ValueError(f"expected units, and factors that are not 0; got {name!r}: {factor:g}")
        return value

    def column_names(self) -> list[str]:
        """Return ``number``."""
        return ["number"]

    @property
    def n_unscaled(self) -> int:
        """The number, which has any scale."""
        return 1

    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return the numbers of distinct texts, shape (1, len(texts))."""
        import numpy as np

        form = NumberFormat(_factors(self.unit), self.decimal, self.bands == "limit")
        with np.errstate(over="ignore"):
            found = np.array([[form.parse(text) for text in texts.to_pylist()]], np.float64).astype(np.float32)
        found[~np.isfinite(found)] = np.nan
        return backend.to_device(found)

    def check(self, column: str, texts: pa.Array, values: Array, codes: Array, sources: DerivationSources) -> None:
        """Warn about the rows whose text is not a number in the units."""
        import numpy as np

        numbers = sources.backend.to_host(values)[0, :-1]
        wrong = [i for i in np.flatnonzero(np.isnan(numbers)).tolist() if texts[i].as_py().strip()]
        if not wrong:
            return
        counts = np.bincount(sources.backend.to_host(codes), minlength=len(texts))
        n_rows = int(counts[wrong].sum())
        if n_rows:
            shown = sorted(wrong, key=lambda i: -counts[i])[:EXAMPLES]
            bands = ", a band (bands: limit reads it)" if all(is_band(texts[i].as_py()) for i in shown) else ""
            unit = f" in {', '.join(_factors(self.unit))}" if self.unit else ""
            share = f"{n_rows:,} of {int(counts[:-1].sum()):,} texts of {column!r}"
            examples = ", ".join(shorten(repr(texts[i].as_py())) for i in shown)
            sources.warnings.append(
                f"{self.OP}: {share} are not numbers{unit} and become missing: {examples}{bands}; list further units "
                "in unit, or declare the column categorical"
            )


def _factors(unit: str | list[str] | dict[str, float]) -> dict[str, float]:
    """Return the factor of each unit."""
    names = [unit] if isinstance(unit, str) and unit else unit
    return dict(names) if isinstance(names, dict) else dict.fromkeys(names, 1.0)
