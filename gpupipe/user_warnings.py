"""Warning classes of the Python interface, and the function that issues them at the line of the user."""

from __future__ import annotations

import sys
import warnings

_PASSED_OVER = ("gpupipe", "sklearn")  # packages whose frames are between the user's line and a warning


class RunWarning(UserWarning):
    """Warning about the data, features or settings of a run: dropped rows and columns, texts read as other values.

    Each is issued once, at the line that called gpupipe. A run shows its warnings in its display or as `RunWarning`;
    `Run.notes` has them in both cases.

    Examples
    --------
    >>> import warnings
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": range(100), "left": ["no", "yes", "yes", None] * 25})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", gp.RunWarning)
    ...     X, y = gp.Pipeline(frame, target="left").features()
    >>> print(caught[0].message)
    25 rows without a target were dropped
    """


class PredictionWarning(UserWarning):
    """Warning about rows to predict: levels that are unseen in training, or a column without a value like its rows.

    Examples
    --------
    Turn the warning into an error:

    >>> import warnings
    >>> import gpupipe as gp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", gp.PredictionWarning)
    """


UNREAD_LISTS = "unread lists"  # the fate of a list column that no op reads


class WarningNote(str):
    """Note that a run shows as a warning.

    - `column`: the column that it is about, "" for none
    - `fate` ({"", "dropped", "unread lists", "missing", "text"}): what became of the column: dropped, because its
      values are not supported or no op reads its lists; some texts read as missing; or text though most are numbers
    """

    column, fate = "", ""

    @classmethod
    def of(cls, text: str, column: str, fate: str = "") -> WarningNote:
        """Return a note about a column."""
        note = cls(text)
        note.column, note.fate = column, fate
        return note


def warn_user(text: str, category: type[Warning] = RunWarning) -> None:
    """Issue a warning at the line of the user: the innermost frame outside of gpupipe and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
