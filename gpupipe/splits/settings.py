"""The ``split:`` section."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpupipe.settings import Settings
from gpupipe.units import parse_time_us

Level = str | int | float | bool


def _plain(value: Any) -> Any:
    """Return a date or a number, as YAML reads them, as text."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def parse_cutoff(cutoff: str) -> tuple[float, bool]:
    """Return a number as it is, or a time as microseconds since 1970 UTC; and whether it was a time.

    Raises
    ------
    ValueError
        If it is neither.
    """
    try:
        return float(cutoff), False
    except ValueError:
        pass
    try:
        return parse_time_us(cutoff), True
    except ValueError:
        raise ValueError(f"{cutoff!r} is neither a date such as 2012-10-01 nor a number") from None


def _time_or_number(cutoff: str) -> str:
    parse_cutoff(cutoff)
    return cutoff


class Predefined(Settings):
    """A column that says where each row belongs.

    Attributes
    ----------
    name : str
        The column of the table.
    train, test : list
        The levels of the column that mean so; without `train`, every level that is not in `test`. Rows with any other
        level are left out.
    """

    name: Annotated[str, Field(min_length=1)]
    train: Annotated[list[Level], Field(min_length=1)] | None = None
    test: Annotated[list[Level], Field(min_length=1)]


class Split(Settings):
    """How rows are divided into training and test rows.

    Attributes
    ----------
    test_size : float
        The share of the rows to test on.
    stratify : bool, optional
        Keep the classes' shares in every part; None: for classification, where `group`, `time` and `column` are not
        given.
    group : str, optional
        Rows with the same value of this column stay together.
    time : str, optional
        Test on the latest rows by this column: `test_size` of them, or all at or after `cutoff`.
    cutoff : str, optional
        ``"2012-10-01"``, ``"2012-10-01T12:00"`` (UTC unless it says otherwise), or a number for a numeric column.
    cv : int, optional
        Cross-validation in so many folds, those of scikit-learn's StratifiedKFold, KFold, GroupKFold (with `group`) or
        TimeSeriesSplit (with `time`).
    shuffle : bool
        False: test on the last rows of the table; folds are blocks of rows.
    seed : int, optional
        None: the configuration's.
    column : Predefined, optional
        A split that somebody else made.
    """

    test_size: Annotated[float, Field(gt=0, lt=1)] = 0.2
    stratify: bool | None = None
    group: str | None = None
    time: str | None = None
    cutoff: Annotated[str, BeforeValidator(_plain), AfterValidator(_time_or_number)] | None = None
    cv: Annotated[int, Field(ge=2)] | None = None
    shuffle: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    column: Predefined | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        kinds = [name for name in ("group", "time", "column") if getattr(self, name) is not None]
        problems = [
            (len(kinds) > 1, f"{' and '.join(kinds)} exclude each other: choose one way to divide the rows"),
            (self.stratify is True and bool(kinds), f"stratify cannot be had with {' and '.join(kinds)}: remove one"),
            (
                self.cutoff is not None and self.time is None,
                "cutoff needs time: name the column that it is compared with",
            ),
            (self.cutoff is not None and self.cv is not None, "cutoff makes one split and cv makes many: remove one"),
            (self.column is not None and self.cv is not None, "column makes one split and cv makes many: remove one"),
            (
                self.stratify is True and not self.shuffle and self.cv is None,
                "the last rows cannot be stratified: set shuffle: true, or stratify: false",
            ),
        ]
        for is_wrong, message in problems:
            if is_wrong:
                raise ValueError(message)
        return self
