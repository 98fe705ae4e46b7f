"""Column selections: names, globs, ``@kind``, and ``!`` to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gpupipe.errors import ConfigError, SchemaError, did_you_mean

KINDS = ("@numeric", "@categorical", "@datetime", "@text", "@boolean", "@all")


def resolve(selection: str | Sequence[str], kinds: Mapping[str, str], derived: Sequence[str] = ()) -> list[str]:
    """Return the names that `selection` means, each once, in the order in which it names them.

    Parameters
    ----------
    selection : str or sequence of str
    kinds : mapping of str to str
        The columns that there are, and their kinds.
    derived : sequence of str
        Columns that ops made: found by name and glob, but not by ``@kind``.

    Raises
    ------
    ConfigError
        If a name or glob matches nothing, or a kind is unknown.
    """
    items = [selection] if isinstance(selection, str) else list(selection)
    chosen: dict[str, None] = {}
    dropped: set[str] = set()
    if items and all(_is_exclusion(item, kinds) for item in items):
        items = ["@all", *items]
    for item in items:
        if _is_exclusion(item, kinds):
            dropped.update(_matching(item[1:], kinds, derived))
        else:
            chosen.update(dict.fromkeys(_matching(item, kinds, derived)))
    return [name for name in chosen if name not in dropped]


def left_out(drop: Sequence[str], kinds: Mapping[str, str], target: str | None, kept: Sequence[str] = ()) -> list[str]:
    """Return the columns that selectors of kinds in ``drop:`` mean; never the target, nor those to be `kept` so far.

    Raises
    ------
    SchemaError
        If no column would be left.
    """
    kinds = {name: kind for name, kind in kinds.items() if name != target}
    selectors = [name for name in drop if name.startswith("@")]
    gone = resolve(selectors, kinds) if selectors else []
    if len(gone) == len(kinds):
        raise SchemaError("no column is left to learn from", where="source.drop", fix="drop fewer")
    return [name for name in gone if name not in kept]


def _is_exclusion(item: str, kinds: Mapping[str, str]) -> bool:
    return item.startswith("!") and item not in kinds


def _matching(item: str, kinds: Mapping[str, str], derived: Sequence[str]) -> list[str]:
    if item in kinds:  # a column may have a *, an @ or a ! in its name
        return [item]
    if item.startswith("@"):
        if item not in KINDS:
            raise ConfigError(f"unknown selector {item!r}", fix=did_you_mean(item, KINDS) or f"one of {KINDS}")
        return [n for n, kind in kinds.items() if n not in derived and item in ("@all", f"@{kind}")]
    found = [name for name in kinds if fnmatchcase(name, item)]
    if not found:
        hint = did_you_mean(item, kinds) or f"the columns are {', '.join(list(kinds)[:20])}"
        raise ConfigError(f"no column {item!r}", fix=hint)
    return found
