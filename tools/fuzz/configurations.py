"""Invalid configurations: edits of their structure, guided by the JSON Schema, and of their text."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import yaml

from tools.fuzz.edits import damaged
from tools.fuzz.schema_values import NAMES, STRANGE, SchemaValues

Path = tuple[str | int, ...]

WORDS = (
    b": ", b"- ", b"&a ", b"*a", b"<<: ", b"<<: *a", b"!!python/object:os.system ", b"!!binary ", b"!!set ", b"!",
    b"${X}", b"${X:", b"${", b"{", b"}", b"[", b"]", b"\t", b"|", b">", b"%YAML 1.1\n", b"---\n", b"...\n", b"@", b"`",
    b"'", b'"', b"\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b".inf", b".nan", b"2024-01-01", b"0o17", b"1_000",
    b"=", b"~", b"? ", b"#", b"\\", b"\xe2\x80\xa8", b"\x1b[2J", b",", b"1:2:3", b"0x1F", b"9" * 50, b"  ", b"\x85",
    b"\xc2\x85", b"seed: 1\n",
)  # fmt: skip


def changed(text: bytes, rng: Random, schema: dict[str, Any]) -> bytes:
    """Return a configuration with one more error, or one more valid setting."""
    if rng.random() < 0.35:
        return damaged(text, rng, WORDS)
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, UnicodeDecodeError, RecursionError, OverflowError):
        return damaged(text, rng, WORDS)
    if not isinstance(tree, dict) or rng.random() < 0.1:
        tree = SchemaValues(schema, rng).value(schema)
    try:
        return _written(_with_one_change(tree, rng, schema))
    except (TypeError, ValueError, RecursionError):  # a tree of aliases, an invalid key
        return damaged(text, rng, WORDS)


def _with_one_change(tree: Any, rng: Random, schema: dict[str, Any]) -> Any:
    """Return the tree with one of its values, keys or items redrawn, dropped, misspelt, moved or added."""
    top = {"root": deepcopy(tree)}
    places = list(_places(top["root"], ("root",)))
    path = rng.choice(places)
    holder, key = _at(top, path[:-1]), path[-1]
    drawn = SchemaValues(schema, rng)
    allowed = _schema_at(schema, path[1:], drawn)
    edit = rng.choice(["drawn", "drawn", "drawn", "strange", "dropped", "misspelt", "moved", "added", "added"])
    if edit == "dropped" and len(path) > 1:
        del holder[key]
    elif edit == "misspelt" and isinstance(holder, dict) and len(path) > 1:
        holder[_misspelt(str(key), rng)] = holder.pop(key)
    elif edit == "moved":
        holder[key] = deepcopy(_at(top, rng.choice(places)))
    elif edit == "added" and isinstance(holder[key], dict | list):
        _add(holder[key], drawn.resolved(allowed) if isinstance(allowed, dict) else {}, drawn)
    else:
        holder[key] = rng.choice(STRANGE) if allowed is None or edit == "strange" else drawn.value(allowed)
    return top["root"]


def _at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _add(value: Any, schema: dict[str, Any], drawn: SchemaValues) -> None:
    if isinstance(value, list):
        value.insert(drawn.rng.randrange(len(value) + 1), drawn.value(schema.get("items")))
    else:
        fields = schema.get("properties", {})
        name = drawn.rng.choice(list(fields) or list(NAMES))
        value[name] = drawn.value(fields.get(name))


def _places(value: Any, path: Path) -> Iterator[Path]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _schema_at(schema: Any, path: Path, drawn: SchemaValues) -> Any:
    """Return the schema of the value at `path`, or None if it cannot be resolved."""
    for step in path:
        options = drawn.resolved(schema) if isinstance(schema, dict) else {}
        found = None
        for option in [options, *options.get("anyOf", [])]:
            option = drawn.resolved(option)
            found = found or (option.get("items") if isinstance(step, int) else option.get("properties", {}).get(step))
        schema = found
    return schema


def _misspelt(word: str, rng: Random) -> str:
    at = rng.randrange(len(word) + 1)
    return rng.choice([word[:at] + word[at + 1 :], word[:at] + "x" + word[at:], word.upper(), word + " ", "", "<<"])


def _written(tree: Any) -> bytes:
    text: str = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False, default_flow_style=None)
    return text.encode("utf-8", "surrogatepass")
