"""Random values that conform to a JSON Schema, with a share of arbitrary ones."""

from __future__ import annotations

from random import Random
from typing import Any

NAMES = (
    "tenure", "charges", "city", "plan", "paperless", "since", "customer", "churned", "Churn", "Contract", "*", "c*",
    "", "@numeric", "@categorical", "@datetime", "@text", "@boolean", "@all", "!city", "!@numeric", "no_such",
)  # fmt: skip
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"), 2**31,
    2**63, 2**64, -(2**63) - 1, 10**40, "", " ", "a", "@", "!", "*", "[", "${", "${X}", "${X:1}", "$", "<script>", "é",
    "a\nb", "\u2028", "2024-13-01", "1e5", "yes", "null", "~", "0x10", "1_000", "a: b", "x" * 300, [], {}, [[]],
    [None], {"": 1}, {"a": {"b": []}}, ["a", 1, None], [1] * 50, "local", "../x", "m.py:f", "auto", "@numeric",
)  # fmt: skip
MAX_DEPTH = 6


class SchemaValues:
    """Generator of values of a schema.

    Parameters
    ----------
    schema : dict
        With its definitions under ``$defs``.
    rng : Random
    strange : float
        Share of arbitrary values.
    """

    def __init__(self, schema: dict[str, Any], rng: Random, strange: float = 0.03) -> None:
        self.definitions = schema["$defs"]
        self.rng = rng
        self.strange = strange

    def value(self, schema: Any, depth: int = 0) -> Any:
        """Return a value of `schema`."""
        if not isinstance(schema, dict) or self.rng.random() < self.strange:
            return self.rng.choice(STRANGE)
        schema = self.resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return self.value(self.rng.choice(choices), depth)
        draw = getattr(self, f"_{schema.get('type', 'any')}", self._any)
        return draw(schema, depth)

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the definition that a reference points to."""
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def _any(self, schema: dict[str, Any], depth: int) -> Any:
        return self.rng.choice(STRANGE)

    def _null(self, schema: dict[str, Any], depth: int) -> None:
        return None

    def _boolean(self, schema: dict[str, Any], depth: int) -> bool:
        return self.rng.random() < 0.5

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        return self.rng.choice(NAMES)

    def _integer(self, schema: dict[str, Any], depth: int) -> int:
        return int(self._within(schema)) if self.rng.random() < 0.3 else self.rng.randrange(1, 6)

    def _number(self, schema: dict[str, Any], depth: int) -> float:
        return self._within(schema) if self.rng.random() < 0.3 else round(self.rng.random(), 3)

    def _within(self, schema: dict[str, Any]) -> float:
        """Return an end of the allowed range, or a value just outside it."""
        ends: list[float] = [
            schema[key] for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum") if key in schema
        ]
        return self.rng.choice(ends or [0]) + self.rng.choice([-1, 0, 1])

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        if "prefixItems" in schema:
            return [self.value(item, depth + 1) for item in schema["prefixItems"]]
        length = 0 if depth > MAX_DEPTH else self.rng.choice([1, 1, 2, 3, 0])
        return [self.value(schema.get("items"), depth + 1) for _ in range(length)]

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        fields, required = schema.get("properties", {}), schema.get("required", [])
        wanted = list(required)
        if depth < MAX_DEPTH and fields:
            wanted += self.rng.sample(list(fields), min(len(fields), self.rng.choice([0, 1, 1, 2, 3])))
        if schema.get("maxProperties") == 1:
            wanted = [self.rng.choice(list(fields))]
        made = {name: self.value(fields.get(name), depth + 1) for name in wanted}
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and depth < MAX_DEPTH:
            made[self.rng.choice(NAMES)] = self.value(others, depth + 1)
        return made
