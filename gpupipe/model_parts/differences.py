"""Differences of the settings and the columns of runs, or of the documents of models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from gpupipe.config.document import join_path


def setting_differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the settings that differ by their path, with the value of each run; None where it is null or absent.

    Models are compared by label; one that a run does not have is a single difference. A feature op is a path itself,
    which is true in the runs that have it.

    Examples
    --------
    >>> setting_differences([{"seed": 0, "features": []}, {"seed": 1, "features": [{"impute": {"columns": "age"}}]}])
    {'seed': [0, 1], 'features: {"impute": {"columns": "age"}}': [None, True]}
    """
    labels = [{entry["as"] for entry in each.get("models", ())} for each in settings]
    shared = set.intersection(*labels) if labels else set()
    leaves = [dict(_leaves(each, shared)) for each in settings]
    found = {}
    for path in dict.fromkeys(chain.from_iterable(leaves)):
        values = [each.get(path) for each in leaves]
        if any(value != values[0] for value in values):
            found[path] = values
    return found


def _leaves(value: Any, shared: set[str], path: str = "") -> Iterator[tuple[str, Any]]:
    if path == "features" and isinstance(value, list):
        yield from ((f"features: {json.dumps(op)}", True) for op in value)
    elif path == "models" and isinstance(value, list):
        for entry in value:
            inner = entry if entry["as"] in shared else entry["name"]
            yield from _leaves(inner, shared, f"models.{entry['as']}")
    elif isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, shared, join_path(path, str(key)))
    else:
        yield path, value


def presence(runs: Sequence[str], names: Sequence[Sequence[str]]) -> list[dict[str, list[str]]]:
    """Return the names that some runs do not have, with the runs that do.

    Examples
    --------
    >>> presence(["a", "b"], [["age", "sex"], ["age", "size"]])
    [{'runs': ['a'], 'columns': ['sex']}, {'runs': ['b'], 'columns': ['size']}]
    """
    found: dict[tuple[str, ...], list[str]] = {}
    sets = [set(each) for each in names]
    for name in dict.fromkeys(chain.from_iterable(names)):
        found.setdefault(tuple(run for run, own in zip(runs, sets, strict=True) if name in own), []).append(name)
    return [{"runs": list(having), "columns": each} for having, each in found.items() if len(having) < len(runs)]
