"""``${NAME}`` and ``${NAME:default}`` in the values of a configuration; ``$${`` stands for a plain ``${``.

Text from the environment may be a secret: it is written and shown as ``${NAME}`` (see `gpupipe.config.redaction`).
``${NAME!}`` says that it may be seen; so may gpupipe's own variables, and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<open>!?)(?P<default>:[^{}]*)?\}|\$\{")

OURS = "GPUPIPE_"
_WHAT_TO_SET = {"GPUPIPE_DATA": "set it to the folder that holds the public tables (README names them)"}


@dataclass
class InterpolatedText:
    """A text whose ``${NAME}`` references are replaced.

    Attributes
    ----------
    text : str
    problems : list of str
        One sentence for each reference that has no value.
    written : str
        The text as it may be written: what must not be shown is ``${NAME}`` again, all else plain and escaped.
    shown : str
        The same for messages: without escapes.
    secrets : dict of str to str
        Name and value of what must not be shown.
    """

    text: str = ""
    written: str = ""
    shown: str = ""
    problems: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)


def interpolate(text: str, environment: Mapping[str, str]) -> InterpolatedText:
    """Replace every reference in `text`.

    A variable that is empty counts as unset, so ``${NAME:}`` is how to allow an empty one.
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
        found.problems.append(f"cannot read {text!r}: write ${{NAME}} or ${{NAME:default}}, or $${{ for a plain ${{")
    elif value := environment.get(name):
        if match["open"] or name.startswith(OURS):
            _add(found, value)
        else:
            found.secrets[name] = value
            found.text += value
            found.written += f"${{{name}}}"
            found.shown += f"${{{name}}}"
    elif default is None:
        fix = _WHAT_TO_SET.get(name, f"set it, or give a default: ${{{name}:default}}")
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
