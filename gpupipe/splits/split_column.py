"""A predefined split: a column marks the training and test rows."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.errors import ConfigError
from gpupipe.splits.settings import Level, Predefined
from gpupipe.typing import Array


def split_by_column(column: Predefined, codes: Array, levels: Sequence[Level | None]) -> tuple[Array, Array]:
    """Return the masks of training and test rows, given the code of each row and the level of each code."""
    import numpy as np

    texts = [_text(level) for level in levels]
    wanted = {name: {_text(level) for level in getattr(column, name) or ()} for name in ("train", "test")}
    unknown = sorted((wanted["train"] | wanted["test"]) - set(texts))
    if unknown:
        raise ConfigError(
            f"column {column.name!r} has no level {', '.join(unknown)}",
            where="split.column",
            fix=f"its levels are {', '.join(text for text in texts[:20] if text)}",
            names=[column.name],
        )
    both = sorted(wanted["train"] & wanted["test"])
    if both:
        raise ConfigError(f"{', '.join(both)} is both train and test", where="split.column", fix="leave it in one")
    in_test = np.array([text in wanted["test"] for text in texts])
    in_train = ~in_test if column.train is None else np.array([text in wanted["train"] for text in texts])
    return in_train[codes], in_test[codes]


def _text(level: Level | None) -> str:
    if level is None:
        return ""
    if isinstance(level, bool):
        return str(level).lower()
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
