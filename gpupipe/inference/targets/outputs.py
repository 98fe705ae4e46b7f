"""Outputs of an exported file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

OutputKind = Literal["label", "probabilities", "prediction", "quantiles"]


@dataclass(frozen=True)
class TargetOutput:
    """An output of a file.

    `name` is the kind; of several targets, with the target appended. `columns` has the labels of the classes, or levels
    of the quantiles.
    """

    name: str
    kind: OutputKind
    target: str
    columns: HostArray

    def describe(self) -> dict[str, Any]:
        """Return the output as JSON values."""
        columns = {"columns": self.columns.tolist()} if len(self.columns) else {}
        return {"name": self.name, "kind": self.kind, "target": self.target, **columns}
