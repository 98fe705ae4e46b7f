"""Splits by time and group as a scikit-learn cross-validator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from gpupipe.errors import ConfigError
from gpupipe.splits.settings import EXPANDING, Split
from gpupipe.splits.time_folds import make_time_folds
from gpupipe.typing import Array


class GroupTimeSplit:
    """Cross-validation by time, with a gap, a window and whole groups, for scikit-learn.

    Each fold tests on rows that are later than those that it trains on, by at least `gap`, and with `group` of other
    groups. Without groups, gap and window, and if all times differ, the folds are those of scikit-learn's
    ``TimeSeriesSplit``. In a configuration, ``split:`` has the same settings.

    Parameters
    ----------
    time : str or array, shape (n_rows,)
        Datetimes, ISO 8601 texts or numbers that order the rows: a column of the frame that is split, or values.
    group : str or array, shape (n_rows,), optional
        Values that are kept together, in training or in test. Default: `groups` of `split`, if given.
    n_splits : int
        Number of folds. 1: a single split, which tests the latest rows.
    gap : str, optional
        Rows before the first test row that are not used: ``"7d"``, ``"500 rows"``, or ``"4"`` in the unit of a numeric
        time. Set it to the time after which a target is known.
    window : str
        Rows to train on: ``"expanding"`` (all before the gap), ``"rolling"`` (as many as in the first fold), or a
        length as for `gap`.
    purge : str, optional
        The side on which rows are removed if their group is on both: ``"train"`` or ``"test"``. Default: the groups to
        test are drawn at random from those with later rows, and the others are trained on.
    test_size : float
        Share of the later groups to draw; with ``n_splits=1``, also the share of the rows that are the latest.
    seed : int
        Random seed of the groups to test.

    Raises
    ------
    ConfigError
        If settings are invalid or contradict each other.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"at": pd.date_range("2024-01-01", periods=12), "shop": list("aabbccddeeff")})
    >>> for train, test in gp.GroupTimeSplit("at", "shop", n_splits=2, gap="2d", purge="train").split(frame):
    ...     print(train, test)
    [0 1 2] [4 5 6 7]
    [0 1 2 3 4 5 6] [ 8  9 10 11]
    """

    def __init__(
        self,
        time: Any,
        group: Any = None,
        n_splits: int = 5,
        *,
        gap: str | None = None,
        window: str = EXPANDING,
        purge: str | None = None,
        test_size: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.time = time
        self.group = group
        self.n_splits = n_splits
        self.gap = gap
        self.window = window
        self.purge = purge
        self.test_size = test_size
        self.seed = seed
        self._settings(has_groups=group is not None or purge is not None)

    def _settings(self, has_groups: bool) -> Split:
        names = "gap", "window", "purge", "test_size", "seed"
        given = {"time": "time", "cv": None if self.n_splits == 1 else self.n_splits}
        given |= {"group": "group"} if has_groups else {}
        try:
            return Split.model_validate(given | {name: getattr(self, name) for name in names})
        except ValidationError as error:
            first = error.errors()[0]
            name = "".join("n_splits" if part == "cv" else str(part) for part in first["loc"])
            what = first["msg"].removeprefix("Value error, ").replace("cv", "n_splits")
            raise ConfigError(what, where=f"GroupTimeSplit{name and f': {name}'}") from None

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Yield the row numbers of each fold, in order of the table.

        Parameters
        ----------
        X : frame or array
            A frame with the named columns; anything if `time` and `group` are values.
        y : ignored
        groups : array, shape (n_rows,), optional
            Groups of the rows, if the splitter has no `group`.

        Yields
        ------
        (train, test) : (array of int, array of int)

        Raises
        ------
        DataError
            If training or test rows of a fold would be empty, there are too few times, or times are missing.
        ConfigError
            If `gap` or `window` does not match the type of the times.
        """
        import numpy as np
        import pandas as pd

        times = _as_series(self.time, X)
        grouped = _as_series(groups if self.group is None else self.group, X)
        codes = None if grouped is None else pd.factorize(grouped, sort=True, use_na_sentinel=False)[0]
        for fold in make_time_folds(self._settings(codes is not None), _as_numbers(times), codes, self.seed):
            yield np.flatnonzero(fold.train), np.flatnonzero(fold.test)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def __repr__(self) -> str:
        settings = {"n_splits": self.n_splits, "gap": self.gap, "window": self.window, "purge": self.purge}
        named = [repr(each) for each in (self.time, self.group) if isinstance(each, str)]
        return f"GroupTimeSplit({', '.join([*named, *(f'{name}={value!r}' for name, value in settings.items())])})"


def _as_series(column: Any, frame: Any) -> Any:
    """Return values, or those of a named column, as a pandas Series; None stays None."""
    import pandas as pd

    if column is None:
        return None
    values = frame[column] if isinstance(column, str) else column
    return pd.Series(values.to_pandas() if hasattr(values, "to_pandas") else values)


def _as_numbers(times: Any) -> Array:
    """Return times as int64 microseconds since 1970-01-01 UTC, or numbers as float64."""
    import numpy as np
    import pandas as pd

    from gpupipe.table.frames import frame_to_arrow
    from gpupipe.table.time_columns import as_times, write_times

    if pd.api.types.is_numeric_dtype(times):
        numbers: Array = times.to_numpy("float64", na_value=float("nan"))
        return numbers
    column = frame_to_arrow({"time": times}).column(0)
    found = np.empty(len(column), np.int64)
    write_times(as_times("time", column, None), found)
    return found
