"""Column names: globs, duplicates, and lists of names that fit into a message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from fnmatch import translate

SHOWN = 20
WIDTH = 40  # characters of a value in a message
MOST_HINTS = 5  # "did you mean" hints per message: each one compares a name with all others
WILDCARDS = "*?["
SELECTORS = ("@numeric", "@categorical", "@datetime", "@text", "@list", "@boolean", "@all")
UNNAMED = re.compile(r"\s*|__index_level_\d+__|__null_dask_index__|Unnamed: \d+(\.\d+)*")


class NamePatterns:
    """Column names and shell-style globs, compiled once to match any number of columns.

    A pattern also matches the column of exactly that name, even if the name contains ``*``, ``?`` or ``[``.

    >>> patterns = NamePatterns(["age", "usage_*"])
    >>> [name for name in ("age", "usage_day", "page") if patterns.matches(name)]
    ['age', 'usage_day']
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._exact = frozenset(patterns)
        globs = sorted(filter(is_glob, self._exact))
        self._glob = re.compile("|".join(map(translate, globs))) if globs else None

    def matches(self, name: str) -> bool:
        """Return whether a name is one of the patterns, or matches one."""
        return name in self._exact or (self._glob is not None and self._glob.match(name) is not None)


def is_glob(pattern: str) -> bool:
    """Return whether a pattern contains a wildcard."""
    return any(sign in pattern for sign in WILDCARDS)


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the patterns that match none of `names`, in order.

    >>> unmatched(["age", "usage_*", "sex"], ["age", "usage_day"])
    ['sex']
    """
    known = frozenset(names)
    missing = [pattern for pattern in patterns if pattern not in known]
    return [
        pattern
        for pattern in missing
        if not (is_glob(pattern) and any(map(re.compile(translate(pattern)).match, known)))
    ]


def is_unnamed(name: str) -> bool:
    """Return whether a column has a blank name, or the one that libraries give to a row index without a name.

    pandas, cuDF and Dask store such an index in files under these names; ``Unnamed: 0`` is the name that pandas gives
    to a column of a CSV file whose header cell is empty, as that of the index.

    >>> [name for name in ("", "__index_level_0__", "Unnamed: 0", "index", "id") if is_unnamed(name)]
    ['', '__index_level_0__', 'Unnamed: 0']
    """
    return UNNAMED.fullmatch(name) is not None


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted.

    >>> duplicates(["b", "a", "b", "a", "c"])
    ['a', 'b']
    """
    return sorted(name for name, n in Counter(names).items() if n > 1)


def enumerate_names(names: Collection[str], most: int = SHOWN, quoted: bool = False) -> str:
    """Return names as a list for a message, cut after `most` of them.

    >>> enumerate_names(["a", "b", "c"], most=2)
    'a, b and 1 more'
    >>> enumerate_names(["a", "b"], quoted=True)
    "'a', 'b'"
    """
    shown = [repr(name) if quoted else name for name, _ in zip(names, range(most), strict=False)]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shown) + more


def count_noun(n: int, noun: str, one: str = "", more: str = "") -> str:
    """Return a number and a noun, and a predicate for one and for more of it.

    >>> count_noun(1, "row"), count_noun(1234, "row")
    ('1 row', '1,234 rows')
    >>> count_noun(2, "class"), count_noun(2, "entity")
    ('2 classes', '2 entities')
    >>> count_noun(1, "row", "is a duplicate", "are duplicates")
    '1 row is a duplicate'
    """
    if n != 1:
        noun = f"{noun}es" if noun.endswith("s") else f"{noun[:-1]}ies" if noun[-2:] == "ty" else f"{noun}s"
    predicate = one if n == 1 else more or one
    return f"{n:,} {noun} {predicate}".rstrip()


def show_value(value: object) -> str:
    """Return a value of any type as text for a message.

    >>> show_value("much"), show_value(3.0)
    ("'much'", '3.0')
    """
    try:
        return shorten(repr(value))
    except Exception:  # of a foreign type; and integers of more than 4,300 digits have no text
        return f"a value of type {type(value).__name__}"


def shorten(value: str) -> str:
    """Return a value short enough for a message.

    >>> shorten("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    return value if len(value) <= WIDTH else f"{value[: WIDTH - 3]}..."
