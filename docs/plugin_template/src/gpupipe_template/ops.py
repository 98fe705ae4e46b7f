"""Feature op: the share of each column in the sum of several columns."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from gpupipe.plugins import PluginOp


class Shares(PluginOp):
    """Divide each column by the sum of all of them; null where the sum is 0.

    Output: one column for each, ``NAME_share``. The columns remain features.
    """

    columns: list[str] = Field(min_length=2, description="Numeric columns that add up to a whole.")

    def expand(self, columns: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return one arithmetic expression for each column."""
        total = " + ".join(f"`{name}`" for name in self.columns)
        return [{"expression": {f"{name}_share": f"`{name}` / ({total})" for name in self.columns}}]
