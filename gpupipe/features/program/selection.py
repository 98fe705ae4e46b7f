"""Column selections: names, globs, ``@kind``, and ``!`` for exclusion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gpupipe.errors import ConfigError, SchemaError, did_you_mean
from gpupipe.names import MOST_HINTS, SELECTORS, NamePatterns, enumerate_names, is_glob


def no_column(name: str, columns: Iterable[str]) -> ConfigError:
    """Return the error about a name or glob that matches none of `columns`."""
    columns = list(columns)
    listed = f"the columns are {enumerate_names(columns)}"
    if is_glob(name):
        return ConfigError(f"no column matches {name!r}", fix=listed, names=[name])
    return ConfigError(f"no column {name!r}", fix=did_you_mean(name, columns) or listed, names=[name])


def resolve(
    selection: str | Sequence[str],
    kinds: Mapping[str, str],
    absent: Callable[[str, bool], ConfigError | None] | None = None,
) -> list[str]:
    """Return the columns that `selection` matches, without duplicates, in the order of the selection.

    `kinds` has the available columns and their kinds. `absent` is called with a name or glob that matches nothing, and
    whether it is excluded by ``!``; it returns the error to raise, or None to ignore it. Raise ConfigError if a name or
    glob matches nothing, or a kind is unknown.
    """

    def matching(item: str, is_excluded: bool) -> list[str]:
        found = _matching(item, kinds)
        if found is None:
            error = absent(item, is_excluded) if absent else no_column(item, kinds)
            if error is not None:
                raise error
        return found or []

    items = [selection] if isinstance(selection, str) else list(selection)
    chosen: dict[str, None] = {}
    dropped: set[str] = set()
    if items and all(_is_exclusion(item, kinds) for item in items):
        items = ["@all", *items]
    for item in items:
        if _is_exclusion(item, kinds):
            dropped.update(matching(item[1:], True))
        else:
            chosen.update(dict.fromkeys(matching(item, False)))
    return [name for name in chosen if name not in dropped]


def select_dropped(
    drop: Sequence[str],
    kinds: Mapping[str, str],
    targets: Sequence[str] = (),
    kept: Sequence[str] = (),
    notes: Iterable[str] = (),
) -> list[str]:
    """Return the columns that ``@kind`` selectors in ``drop:`` match, except the targets and the `kept` columns.

    `notes` about the table, which contain why columns are absent, are for the error. Raise SchemaError if no column
    would remain.
    """
    kinds = {name: kind for name, kind in kinds.items() if name not in targets}
    if not kinds:
        only = "column is the target" if len(targets) == 1 else "columns are the targets"
        raise SchemaError(
            f"no feature column is left: the only {only} {enumerate_names(targets, quoted=True)}",
            where="source",
            fix="; ".join(list(notes)[:MOST_HINTS])
            or "add columns to the table, or keep more of them: see source.columns and source.drop",
        )
    selectors = [name for name in drop if name in SELECTORS]
    gone = resolve(selectors, kinds) if selectors else []
    if len(gone) == len(kinds):
        raise SchemaError("source.drop removes all columns", where="source.drop", fix="drop fewer columns")
    needed = frozenset(kept)
    return [name for name in gone if name not in needed]


def _is_exclusion(item: str, kinds: Mapping[str, str]) -> bool:
    return item.startswith("!") and item not in kinds


def _matching(item: str, kinds: Mapping[str, str]) -> list[str] | None:
    """Return the columns that one item matches, or None if a name or glob matches nothing."""
    if item in kinds:  # column names may contain *, @ or !
        return [item]
    if item.startswith("@"):
        if item not in SELECTORS:
            raise ConfigError(
                f"unknown selector {item!r}", fix=did_you_mean(item, SELECTORS) or f"use one of {', '.join(SELECTORS)}"
            )
        return [name for name, kind in kinds.items() if item in ("@all", f"@{kind}")]
    return (list(filter(NamePatterns([item]).matches, kinds)) if is_glob(item) else None) or None
