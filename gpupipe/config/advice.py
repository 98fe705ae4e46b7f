"""Translation of advice in error messages from command-line and YAML notation to Python."""

from __future__ import annotations

import re
from typing import Any

import yaml

# Command-line options and the equivalent arguments of `gpupipe.Pipeline`.
OPTIONS = (
    (re.compile(r"--(device|assume-gpu) ([\w.]+)"), lambda m: f'{m[1].replace("-", "_")}="{m[2]}"'),
    (re.compile(r"--set ([\w.\[\]]+=[^\s,;]+)"), lambda m: f'overrides=["{m[1]}"]'),
    (re.compile(r"--resume\b"), lambda m: "resume=True"),
    (re.compile(r"--output\b"), lambda m: "output"),
    (re.compile(r"--nproc\b"), lambda m: "n_processes"),
    (
        re.compile(r"write a configuration for it: `gpupipe init ('[^`]*'|\S+) --target COLUMN`"),
        lambda m: f'use gp.Pipeline("{m[1].strip(chr(39))}", target="COLUMN")',
    ),
)

_COLLECTION = re.compile(r"(- )?\b(?:source\.)?([a-z_]\w*): (?=[{\[])")
_SCALAR = re.compile(
    r"\b(source\.)?(fallback|strategy|cardinality|format|cache|unit|value|stratify|calibrate|prefix|as): ([\w.-]*\w)"
)
_ITEM = re.compile(r"(?:^|(?<=[\s`]))- ([a-z_]\w*): (@?\w[\w.-]*\w|\w)")
READER_OPTIONS = ("csv",)  # keys of the `source` section that `Pipeline` has no argument for


def cli_to_python(text: str) -> str:
    """Return `text` with command-line options rewritten as Python arguments.

    >>> cli_to_python("run with --device cpu, or again with --resume")
    'run with device="cpu", or again with resume=True'
    """
    for option, argument in OPTIONS:
        text = option.sub(argument, text)
    return text


def yaml_to_python(text: str) -> str:
    """Return `text` with YAML settings rewritten as arguments of `gpupipe.Pipeline`.

    >>> yaml_to_python("declare it: schema: {paid: float}, or set fallback: allow")
    "declare it: schema={'paid': 'float'}, or set fallback='allow'"
    >>> yaml_to_python("first - datetime_parts: {columns: at, parts: [hour]}, then use it")
    "first {'datetime_parts': {'columns': 'at', 'parts': ['hour']}}, then use it"
    >>> yaml_to_python("encode it first: - encode: plan")
    "encode it first: {'encode': 'plan'}"
    >>> yaml_to_python("set csv: {encoding: cp1252}, or set stratify: false")
    "set {'path': ..., 'csv': {'encoding': 'cp1252'}}, or set stratify=False"
    """
    text = text.replace("relative to the configuration", "relative to the working directory")
    parts, at = [], 0
    while found := _COLLECTION.search(text, at):
        end = _end_of_collection(text, found.end())
        parts.append(text[at : found.start()])
        parts.append(_in_python(found[2], text[found.end() : end], is_item=bool(found[1])) or text[found.start() : end])
        at = end
    text = _ITEM.sub(lambda m: repr({m[1]: m[2]}), "".join(parts) + text[at:])
    return _SCALAR.sub(_scalar, text)


def _end_of_collection(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "{[") - (text[i] in "}]")
        if depth == 0:
            return i + 1
    return len(text)


def _in_python(key: str, text: str, is_item: bool) -> str:
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        return ""
    if is_item:
        return repr({key: value})
    if key == "source" and isinstance(value, dict):
        return ", ".join(f"{name}={item!r}" for name, item in value.items())
    if key in READER_OPTIONS:
        return f"{{'path': ..., {key!r}: {value!r}}}"
    return f"{key}={value!r}"


def _scalar(found: re.Match[str]) -> str:
    section, key, word = found.groups()
    value = yaml.safe_load(word)
    if key == "as":  # a Python keyword cannot be an argument name
        return f"{key!r}: {value!r}"
    return f"{{'path': ..., {key!r}: {value!r}}}" if section else f"{key}={value!r}"
