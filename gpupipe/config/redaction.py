"""Hiding of environment values and URL credentials in text.

Messages quote settings as written (`gpupipe.config.document.EnvironmentValue`). `Redactor` is the second line of
defence, for text from libraries, paths built from settings, and any other text that may contain a value:

- A value of 6 or more characters is hidden as a whole wherever it occurs, in upper or lower case, plain or escaped as
  in Python, JSON, HTML and URLs. So are its start before an ellipsis, and the password of a value that is a URL.
- A value of 4 or 5 characters is hidden if no letter or digit is next to it. A shorter value is hidden only as part of
  its setting.
- Numbers and booleans are not secrets, but digits inside text are. Keywords of gpupipe are not secrets
  (`gpupipe.config.load.known_words`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from gpupipe.io.files import mask

LEAST, LEAST_IN_WORDS = 4, 6  # characters of a value that is hidden as a word, and inside words
ELLIPSES = ("...", "…")
REFERENCE = r"\$\{\w+!?(?::[^{}]*)?\}"  # never changed: a value may contain the name of its variable
PASSWORD = re.compile(r"://[^/@:]*:([^/@]+)@")


@dataclass(frozen=True)
class Redactor:
    """Replacer of secret values in text by ``${NAME}`` references.

    - `values`: variable name to value.
    - `settings`: expanded text of a setting to its text as written.

    Examples
    --------
    >>> redactor = Redactor({"TOKEN": "hunter2hunter2"})
    >>> redactor.hide("the key 'hunter2hun...' at https://me:pw@host/hunter2hunter2_v1 is wrong")
    "the key '${TOKEN}...' at https://***@host/${TOKEN}_v1 is wrong"
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        """True if any value must be hidden."""
        return bool(self.values)

    def hide(self, text: str) -> str:
        """Return `text` with secret values replaced by ``${NAME}``, and URL credentials by ``***``."""
        if self.values and text:
            written = list(self._forms.values())
            text = self._pattern.sub(lambda found: written[found.lastindex - 1] if found.lastindex else found[0], text)
            for mark in ELLIPSES:
                *cut, last = text.split(mark)
                text = mark.join([*map(self._without_start, cut), last])
        return mask(text)

    def hide_all(self, value: object) -> object:
        """Return JSON values with secrets hidden in every text, including keys of mappings."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide_all(key): self.hide_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_all(item) for item in value]
        return value

    def has_secret(self, text: str) -> bool:
        """Return whether `text` contains a value that would be hidden."""
        return bool(self.values) and self.hide(text) != mask(text)

    @cached_property
    def _forms(self) -> dict[str, str]:
        """The reference that replaces each form of a value or setting; the longest forms first."""
        whole = {value: f"${{{name}}}" for name, value in self.values.items()}
        texts: dict[str, str] = {}
        for value, written in whole.items():
            texts |= dict.fromkeys(_parts(value), written)
        texts |= {text: written for text, written in self.settings.items() if len(text) >= LEAST_IN_WORDS}
        found: dict[str, str] = {}
        for text, written in (texts | whole).items():
            found |= dict.fromkeys(_forms(text), written)
        return {form: found[form] for form in sorted(found, key=len, reverse=True)}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Matches of a reference, or of a form as the group of its number."""
        return re.compile("|".join([REFERENCE, *map(_pattern, self._forms)]), re.IGNORECASE)

    def _without_start(self, text: str) -> str:
        """Return `text` with the start of a value at its end replaced."""
        for form, written in self._forms.items():
            for found in re.finditer(re.escape(form[:LEAST_IN_WORDS]), text, re.IGNORECASE):
                rest = text[found.start() :].lower()
                if len(rest) >= LEAST_IN_WORDS and form.lower().startswith(rest):
                    return text[: found.start()] + written
        return text


def _pattern(form: str) -> str:
    """Return the pattern of a form; a short one must be a word."""
    if len(form) >= LEAST_IN_WORDS:
        return f"({re.escape(form)})"
    before = "(?<![^\\W_])" if form[0].isalnum() else ""
    return f"{before}({re.escape(form)})" + ("(?![^\\W_])" if form[-1].isalnum() else "")


def _parts(value: str) -> list[str]:
    """Return texts to hide besides a value: without its line ends, and the password of a URL."""
    return [value.strip(), " ".join(value.split()), *PASSWORD.findall(value)]


def _forms(text: str) -> list[str]:
    """Return the forms of a text in messages: plain, and escaped as in Python, JSON, HTML and URLs."""
    if len(text) < LEAST or (text.isalnum() and text.isascii()):
        return [text] * (len(text) >= LEAST)
    import html  # here: its large table of entities is needed for secrets only

    forms = [
        text,
        repr(text)[1:-1],
        repr(f"{text}'")[1:-2],  # in double quotes, which leave single quotes unescaped
        repr(f"'\"{text}")[4:-1],  # in single quotes, with both kinds in the text
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        html.escape(text),
        html.escape(text, quote=False),
        quote(text, errors="surrogateescape"),
        quote(text, safe="", errors="surrogateescape"),
        quote_plus(text, errors="surrogateescape"),
        unquote(text),
        unquote_plus(text),
    ]
    if "\\" in text or "\n" in text:  # quoted twice
        forms += [repr(form)[1:-1] for form in forms]
    return [form for form in forms if len(form) >= LEAST]
