"""Environment variables in configuration values: ``${NAME}`` and ``${NAME:default}``; ``$${`` is a literal ``${``.

Values from the environment may be secrets: they are written and shown as ``${NAME}`` (see `gpupipe.config.redaction`).
``${NAME!}`` allows the value to be shown; values of ``GPUPIPE_`` variables and defaults are always shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<open>!?)(?P<default>:[^{}]*)?\}|\$\{")

OURS = "GPUPIPE_"
_WHAT_TO_SET = {"GPUPIPE_DATA": "set it to the folder of the public tables (see configs/README.md)"}


@dataclass
class InterpolatedText:
    """Text with its ``${NAME}`` references replaced.

    - `problems`: one sentence per reference without a value.
    - `written`: the text as it may be written to a file: secrets are ``${NAME}`` again, everything else is escaped.
    - `shown`: the same for messages, without escapes.
    - `secrets`: names and values of the variables that must not be shown.
    """

    text: str = ""
    written: str = ""
    shown: str = ""
    problems: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)


def interpolate(text: str, environment: Mapping[str, str]) -> InterpolatedText:
    """Replace every reference in `text`.

    An empty variable counts as unset; ``${NAME:}`` allows it to be empty.
    """
    found, at = InterpolatedText(), 0
    for match in _REFERENCE.finditer(text):
        _add(found, text[at : match.start()])
        _replace(found, match, text, environment)
        at = match.end()
    _add(found, text[at:])
    return found


def _replace(found: InterpolatedText, match: re.Match[str], text: str, environment: Mapping[str, str]) -> None:
    name, default = match["name"], match["default"]
    if match[0] == "$${":
        _add(found, "${")
    elif name is None:
        found.problems.append(f"malformed reference in {text!r}: write ${{NAME}}, ${{NAME:default}}, or $${{ for ${{")
    elif value := environment.get(name):
        if match["open"] or name.startswith(OURS):
            _add(found, value)
        else:
            found.secrets[name] = value
            found.text += value
            found.written += f"${{{name}}}"
            found.shown += f"${{{name}}}"
    elif default is None:
        fix = _WHAT_TO_SET.get(name, f"set it, or add a default: ${{{name}:default}}")
        found.problems.append(f"the environment variable {name} is not set; {fix}")
    else:
        _add(found, default[1:])


def _add(found: InterpolatedText, text: str) -> None:
    found.text += text
    found.written += escape(text)
    found.shown += text


def escape(text: str) -> str:
    """Return text that `interpolate` turns back into `text`."""
    return text.replace("${", "$${")
