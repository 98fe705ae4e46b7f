"""``${NAME}`` and ``${NAME:default}`` in the values of a configuration; ``$${`` stands for a plain ``${``."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:[^{}]*)?\}|\$\{")

_WHAT_TO_SET = {"GPUPIPE_DATA": "set it to the folder that holds the public tables (README names them)"}


def interpolate(text: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Replace every reference in `text`.

    A variable that is empty counts as unset, so ``${NAME:}`` is how to allow an empty one.

    Returns
    -------
    (str, list of str)
        The text, and what is wrong with it: one sentence for each reference that has no value.
    """
    problems: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if name is None:
            problems.append(f"cannot read {text!r}: write ${{NAME}} or ${{NAME:default}}, or $${{ for a plain ${{")
            return ""
        if environment.get(name):
            return environment[name]
        if default is None:
            fix = _WHAT_TO_SET.get(name, f"set it, or give a default: ${{{name}:default}}")
            problems.append(f"the environment variable {name} is not set; {fix}")
            return ""
        return str(default[1:])

    return _REFERENCE.sub(value_of, text), problems


def escape(text: str) -> str:
    """Return text that `interpolate` turns back into `text`."""
    return text.replace("${", "$${")
