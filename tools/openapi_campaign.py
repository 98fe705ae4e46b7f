"""Requests that schemathesis derives from the OpenAPI document of a server.

``run_campaign("http://127.0.0.1:8080", 2000, seed=1)`` sends valid requests and invalid ones, runs all checks of
schemathesis (checked: 4.32), and returns the failures.

JSON Schema cannot state that lists have equal length, so valid requests get lists of the length of the shortest one.
It cannot state which integers are dates either: they become null. Tensors are not repaired: the server may refuse them.
A cell of another type than documented may be accepted, if it means the same: the text ``3``, or true for 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jsonschema
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

PREDICT = "/predict"
Json = dict[str, Any]


def run_campaign(url: str, n_cases: int, seed_: int) -> list[str]:
    """Send about `n_cases` requests, half of them to /predict, and return what is wrong with the answers."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    document: Json = schema.raw_schema
    row = document["components"]["schemas"]["Row"]["properties"]
    loose = _without_types(document)
    failures: list[str] = []
    plans = [(each.ok(), mode) for each in schema.get_all_operations() for mode in GenerationMode]
    plans = [(each, mode) for each, mode in plans if each.body or mode is GenerationMode.POSITIVE]
    n_others = max(1, n_cases // (2 * len(plans)))
    for operation, mode in plans:
        limits = settings(
            max_examples=n_cases // 4 if operation.path == PREDICT else n_others,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        decorate: Any = given(operation.as_strategy(generation_mode=mode))
        checked: Any = decorate(_checker(mode, row, loose, failures))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries
            run: Any = seed(seed_)(limits(checked))
            run()
    return failures


def _checker(mode: GenerationMode, row: Json, loose: Json, failures: list[str]) -> Callable[[Any], None]:
    def check(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and case.path == PREDICT:
            case.body = _repaired(case.body, row)
        response = case.call(timeout=20)
        try:
            case.validate_response(response, excluded_checks=_excluded(case, loose))
        except FailureGroup as group:
            failures.extend(f"{case.method} {case.path}: {each}" for each in group.exceptions)

    return check


def _repaired(body: Any, row: Json) -> Any:
    """Return a valid body with lists of equal length, and null instead of integers that stand for dates."""
    dates = {name for name, cell in row.items() if "integer" in cell.get("type", ()) and "pattern" in cell}

    def repair(name: str, value: Any) -> Any:
        return None if name in dates and type(value) in (int, float) else value

    if isinstance(body, list):
        return [_repaired(each, row) for each in body]
    if isinstance(body, dict) and isinstance(columns := body.get("columns"), dict):
        length = min((len(columns[name]) for name in row), default=0)
        kept = {name: [repair(name, value) for value in columns[name][:length]] for name in row}
        return body | {"columns": kept}
    return {name: repair(name, value) for name, value in body.items()} if isinstance(body, dict) else body


def _excluded(case: Any, loose: Json) -> list[Any]:
    """Return the checks that are about what a schema cannot state."""
    if case.path != PREDICT and case.body is not None:
        return [positive_data_acceptance, negative_data_rejection]
    forms = loose["paths"][PREDICT]["post"]["requestBody"]["content"]["application/json"]["schema"]
    is_meant = case.path == PREDICT and jsonschema.Draft202012Validator({**loose, **forms}).is_valid(case.body)
    return [negative_data_rejection] if is_meant else []


def _without_types(value: Any) -> Any:
    """Return a document whose cells may have any type but those of lists and objects."""
    if isinstance(value, list):
        return [_without_types(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _without_types(each) for name, each in value.items()}
    if {"object", "array"} & {value["type"]} if isinstance(value.get("type"), str) else False:
        return found
    if isinstance(value.get("type"), str | list):
        return {"type": ["string", "number", "boolean", "null"]}
    return found
