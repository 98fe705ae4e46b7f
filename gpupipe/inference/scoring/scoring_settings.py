"""Settings of batch scoring, shared by one machine and a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gpupipe.inference.model import Model
    from gpupipe.inference.untrusted.model import UntrustedModel
    from gpupipe.io.settings import TableSource

OnError = Literal["error", "reject", "null"]


def _ignore(text: str) -> None:
    """Do nothing with a note."""


def _unchanged(source: TableSource) -> TableSource:
    return source


@dataclass(frozen=True, kw_only=True)
class ScoringSettings:
    """Settings of a batch scoring: the model's, those of the rows and those of the output."""

    device: str = "auto"  # with a cluster, the device of its workers
    allow_code: bool = False  # whether custom kernels in the model may run
    # Run the model in a child process; the scores are the same. See `gpupipe.load_model`. Not with a cluster.
    untrusted: bool = False
    limits: Mapping[str, Any] | None = None  # limits of the child process
    trust: Sequence[str] | None = None  # keys of which one must have signed the model
    # The further tables that features are computed from: name to file, glob, folder or URL.
    tables: Mapping[str, str] | None = None
    as_of: str | None = None  # score as of this ISO date or time instead of the cut-off dates of the training
    # Takes the source of the rows and returns it with other reader settings. ``isolate`` and ``outside_files`` apply to
    # `tables` as well.
    adjust: Callable[[TableSource], TableSource] = _unchanged
    # Handling of rows that cannot be scored; see `gpupipe.inference.scoring.bad_rows.screen`. Unless ``"error"``, the
    # output has a column ``row`` with the row number in the input, from 0, and rejected rows are written next to it:
    # ``scores.rejected.csv`` for ``scores.csv``, or to `errors_to`. Rejected rows are excluded from the history of
    # other rows. Not with a cluster.
    on_error: OnError = "error"
    errors_to: Path | None = None
    # Columns to copy to the output, as its first columns; None: the identifier columns of the training.
    ids: Sequence[str] | None = None
    keep: Sequence[str] = ()  # further columns to copy: names and globs
    explain: int = 0  # number of the strongest contributions to write for each prediction; see `Model.predict_table`
    # Escape texts that a spreadsheet would evaluate as formulas; see
    # `gpupipe.inference.scoring.outputs.escape_formulas`.
    safe_csv: bool = False
    log: Callable[[str], None] = _ignore  # called with each warning or note

    def load(self, model: str | Path) -> Model | UntrustedModel:
        """Return the model of a run directory or a model directory; raise as `gpupipe.load_model`."""
        from gpupipe.inference.model import load_model

        own: Any = {name: getattr(self, name) for name in ("allow_code", "untrusted", "limits", "trust")}
        found: Model | UntrustedModel = load_model(model, self.device, **own)
        return found


DEFAULT_SETTINGS = ScoringSettings()
