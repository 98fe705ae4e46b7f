"""Reason codes of a model: its input columns as reasons of an adverse decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.errors import ConfigError
from gpupipe.features.program.selection import no_column
from gpupipe.metrics.settings import ReasonCodes
from gpupipe.model_parts.goal import Goal, label_text
from gpupipe.model_parts.part_shapes import REASON_CODES
from gpupipe.names import count_noun, enumerate_names
from gpupipe.typing import HostArray

HISTORY = "history"  # of features that are computed from other rows of the main table
PATH = "evaluate.reason_codes"
SIDES = {"high": 1.0, "low": -1.0}


class Reason(NamedTuple):
    """Input column that moves a row toward the adverse outcome, by `contribution` to the margin.

    `code` and `text` are None if the column has no reason code.
    """

    column: str
    code: str | None
    text: str | None
    contribution: float


@dataclass(frozen=True)
class ModelReasons:
    """Reason codes in a model; `sign` is 1.0 if a higher margin is more adverse, otherwise -1.0."""

    columns: Mapping[str, Mapping[str, str]]
    exclude: Sequence[str]
    top: int
    adverse: str
    sign: float

    @staticmethod
    def of(settings: ReasonCodes, goal: Goal) -> ModelReasons:
        """Return the reason codes of a model with `goal`; raise ConfigError if it has no adverse direction."""
        adverse = settings.adverse
        if goal.task == "binary":
            signs = dict(zip(goal.label_texts, (-1.0, 1.0), strict=True))
            shown = goal.label_texts[1] if adverse is None else label_text(adverse)
        elif goal.task == "regression":
            signs, shown = SIDES, str(adverse)
        else:
            what = f"reason codes are for the tasks binary and regression; the task is {goal.task}"
            raise ConfigError(what, where=PATH, fix="remove them")
        if shown not in signs:
            what, fix = "no value is stated as adverse", f"state one: adverse: {next(iter(signs))}"
            if adverse is not None:
                what, fix = f"expected one of {', '.join(signs)}; got {shown!r}", "correct it"
            raise ConfigError(what, where=f"{PATH}.adverse", fix=fix)
        columns = {name: reason.model_dump() for name, reason in settings.columns.items()}
        return ModelReasons(columns, list(settings.exclude), settings.top, shown, signs[shown])

    @staticmethod
    def read(manifest: Mapping[str, Any]) -> ModelReasons | None:
        """Return the reason codes in a manifest, or None; raise ValueError if they are malformed."""
        values = manifest.get("reason_codes")
        check_shape(values, REASON_CODES, "reason_codes")
        return None if values is None else ModelReasons(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a manifest."""
        return asdict(self)

    def rank(self, columns: Sequence[str], values: HostArray) -> list[list[Reason]]:
        """Return the reasons of rows, the strongest first: at most `top`, each moving the row toward the adverse side.

        `values` are the contributions of `columns`, float64, shape (n, len(columns)).
        """
        is_stated = np.array([name not in self.exclude for name in columns], bool)
        toward = np.where(is_stated, self.sign * values, 0.0)
        order = np.argsort(-toward, axis=1, kind="stable")[:, : self.top]
        return [
            [self._reason(columns[j], float(row[j])) for j in chosen if pushes[j] > 0]
            for row, pushes, chosen in zip(values, toward, order.tolist(), strict=True)
        ]

    def _reason(self, column: str, contribution: float) -> Reason:
        stated = self.columns.get(column, {})
        return Reason(column, stated.get("code"), stated.get("text"), contribution)


def check_reason_codes(
    settings: ReasonCodes | None, goal: Goal, columns: Sequence[str], tables: Sequence[str]
) -> list[str]:
    """Return warnings about reason codes; raise ConfigError if they do not suit the goal or name an unknown column.

    `columns` are those of the main table that may be inputs, and `tables` the further tables.
    """
    if settings is None:
        return []
    ModelReasons.of(settings, goal)
    inputs = [name for name in dict.fromkeys(columns) if name not in goal.names]
    known = [*inputs, *tables, HISTORY]
    for field, names in (("columns", settings.columns), ("exclude", settings.exclude)):
        if unknown := [name for name in names if name not in known]:
            error = no_column(unknown[0], known)
            error.where = f"{PATH}.{field}"
            raise error
    stated = {*settings.columns, *settings.exclude}
    if absent := [name for name in inputs if name not in stated]:
        text = count_noun(len(absent), "column", "has no code and is", "have no code and are")
        return [f"{PATH}: {text} not excluded, so they may be reasons without a code: {enumerate_names(absent)}"]
    return []
