"""Numbers in texts with units, percent signs, currencies and separators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.distinct_text_op import TextOp
from gpupipe.names import shorten
from gpupipe.settings import NumberTextSettings
from gpupipe.table.number_texts import NumberFormat, is_band
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.history.tables import DerivationSources

EXAMPLES = 3  # texts in a warning


@OPS.register("parse_number")
class ParseNumber(TextOp, NumberTextSettings):
    """Read numbers from texts: ``$1,234.50``, ``12.5%``, ``(5.20)``, ``1,248 CC``, ``€ 1.234,50`` with a decimal comma.

    A text has one number, at most a sign, and units before or after it. Thousands may be separated by a comma, a blank,
    an apostrophe or ``_``, and by a point if the comma is decimal. Parentheses and the Unicode minus make a number
    negative. A percentage is the number that is written: ``12.5%`` is 12.5; with ``units: {"%": 0.01}`` it is 0.125.

    A text without a unit is a number in the unit of the column. A text with another unit, a band such as ``<5``, or a
    text without a number is null, and a run reports how many rows have one. With ``bands: limit``, ``<5`` and ``5+``
    are 5, and ``10-20`` is 15, which keeps the order of the values, apart from ties at the limit. Nothing is learned:
    units are those of the settings, so that a text has the same value in every table.

    With ``duration: d``, texts are durations in days: in words from large units to small ones (``1 year 2 months``,
    ``2h 30m``, where ``m`` are minutes), as a clock of three parts (``00:12:30``, ``1 day 02:00:00``), or in ISO 8601
    (``PT5M``). A month has 30.436875 days and a year 365.2425, the means of the Gregorian calendar.

    ``schema: {price: {kind: number, units: $}}`` takes the same settings and reads the column itself as a number.

    Output: ``price_number``; float32, null where the text is null or not a number. Takes text and categorical columns;
    declare the column as text, so that it is not a category too.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"price": ["$1,234.50", "($5.20)", "7", "7 EUR", None]})
        >>> ops = [{"parse_number": {"columns": "price", "units": "$"}}]
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

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_name(cls, data: Any) -> Any:
        """Read the setting `units` by its name in 0.1, `unit`, which models contain."""
        if isinstance(data, dict) and "unit" in data and "units" not in data:
            return {("units" if name == "unit" else name): value for name, value in data.items()}
        return data

    @property
    def _format(self) -> NumberFormat:
        return NumberFormat.of(self.units, self.decimal, self.bands, self.duration)

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

        form = self._format
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
            share = f"{n_rows:,} of {int(counts[:-1].sum()):,} texts of {column!r}"
            examples = ", ".join(shorten(repr(texts[i].as_py())) for i in shown)
            sources.warnings.append(
                f"{self.OP}: {share} are not {self._format.label} and become missing: {examples}{bands}; list further "
                "units in units, or declare the column categorical"
            )
