"""Hiding of environment values and URL credentials in text.

Messages quote settings as written (`gpupipe.config.document.EnvironmentValue`). `Redactor` is the second line of
defence, for text from libraries, paths built from settings, and any other text that may contain a value:

- A value of 6 or more characters is hidden wherever it occurs, in upper or lower case, plain or escaped as in Python,
  JSON, HTML and URLs.
- A fragment of 6 or more characters of a value is hidden too, such as a folder of a path or the start of truncated
  text. Both ends of the fragment must be word boundaries in the text or in the value, unless it has 12 or more
  characters. A fragment of letters only, which may be an ordinary word, must be quoted, part of a path, or truncated.
- A value of 4 or 5 characters is hidden if no letter or digit is next to it. A shorter value is hidden only as part of
  its setting.
- Numbers and booleans are not secrets, but digits inside text are. Keywords of gpupipe are not secrets
  (`gpupipe.config.load.known_words`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from gpupipe.io.files import mask

LEAST_LENGTH = 4  # characters of the shortest value that is hidden by itself
LEAST_FRAGMENT = 6
SURE_FRAGMENT = 12  # too long for a coincidence
MOST_CHARACTERS = 100_000  # of a value whose fragments are hidden; Linux allows 131,072
CUT = ("...", "…")
IN_QUOTES_OR_PATH = frozenset("'\"`/\\@")
REFERENCE = re.compile(r"\$\{\w+!?(?::[^{}]*)?\}")  # never changed: a value may contain the name of its variable
BLANK_OR_SEPARATOR = re.compile(r"^[\s/.,:;_-]+|[\s/.,:;_-]+$")


@dataclass(frozen=True)
class Redactor:
    """Replacer of secret values in text by ``${NAME}`` references.

    Attributes
    ----------
    values : mapping of str to str
        Variable name to value.
    settings : mapping of str to str
        Expanded text of a setting to its text as written.
    public : collection of str
        Texts that may be shown, such as the path of the configuration. Fragments shared with them are not hidden.

    Examples
    --------
    >>> redactor = Redactor({"TOKEN": "hunter2hunter2"})
    >>> redactor.hide("the key 'hunter2hun...' at https://me:pw@host/hunter2hunter2_v1 is wrong")
    "the key '${TOKEN}...' at https://***@host/${TOKEN}_v1 is wrong"
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    public: Collection[str] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        """True if any value must be hidden."""
        return bool(self.values)

    def hide(self, text: str) -> str:
        """Return `text` with secret values replaced by ``${NAME}``, and URL credentials by ``***``."""
        if self.values and text:
            text = "".join(
                part if is_reference else self._without_fragments(part)
                for part, is_reference in self._without_values(text)
            )
            text = _merged(text)
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
        """Return whether `text` contains a value or fragment that would be hidden."""
        return bool(self.values) and self.hide(text) != mask(text)

    def _without_values(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield the parts of `text` in order, each with True if it is a reference: to a value or a setting, or old."""
        lower, at = _lower(text), 0
        found = [(match.start(), match.end(), match[0]) for match in REFERENCE.finditer(text)]
        for form, reference, is_short in self._whole:
            start = lower.find(form)
            while start >= 0:
                end = start + len(form)
                if not is_short or (_ends_word(text, start) and _ends_word(text, end)):
                    found.append((start, end, reference))
                start = lower.find(form, start + 1)
        for start, end, reference in sorted(found, key=lambda each: (each[0], -each[1])):
            if start >= at:
                yield text[at:start], False
                yield reference, True
                at = end
        yield text[at:], False

    @cached_property
    def _whole(self) -> list[tuple[str, str, bool]]:
        """Every form of each value and setting in lower case, its reference, and True if it must be a whole word."""
        forms: dict[str, str] = {}
        for name, value in self.values.items():
            if len(value) >= LEAST_LENGTH:
                forms |= {form: f"${{{name}}}" for form in map(_lower, _forms(value))}
        for setting, written in self.settings.items():
            if len(setting) >= LEAST_FRAGMENT:
                forms = {form: written for form in map(_lower, _forms(setting))} | forms
        return [(form, reference, len(form) < LEAST_FRAGMENT) for form, reference in forms.items()]

    @cached_property
    def _fragments(self) -> list[tuple[str, frozenset[str], str]]:
        """Each form of each long value in lower case, its fragments of the shortest length, and its reference."""
        found: dict[str, tuple[str, frozenset[str], str]] = {}
        for name, value in self.values.items():
            if LEAST_FRAGMENT < len(value) <= MOST_CHARACTERS:
                for form in map(_lower, _forms(value)):
                    grams = (form[i : i + LEAST_FRAGMENT] for i in range(len(form) - LEAST_FRAGMENT + 1))
                    found.setdefault(form, (form, frozenset(grams), f"${{{name}}}"))
        return list(found.values())

    @cached_property
    def _public(self) -> str:
        return "\n".join(map(_lower, self.public))

    def _without_fragments(self, text: str) -> str:
        lower, parts, at, i = _lower(text), [], 0, 0
        while i <= len(text) - LEAST_FRAGMENT:
            found = self._fragment_at(lower, i)
            if found is None:
                i += 1
                continue
            start, end, reference = found
            if end > start:
                parts += [text[at:start], reference]
                at = end
            i = max(end, i + 1)
        return "".join([*parts, text[at:]]) if parts else text

    def _fragment_at(self, text: str, i: int) -> tuple[int, int, str] | None:
        """Return start, end and reference of the longest fragment to hide at `i`; an empty range hides nothing."""
        gram, longest = text[i : i + LEAST_FRAGMENT], None
        for form, grams, reference in self._fragments:
            if gram in grams:
                end = _end_of_run(text, i, form)
                start, stop = self._part_to_hide(text, i, end, form)
                if stop > start and (longest is None or stop - start > longest[1] - longest[0]):
                    longest = start, stop, reference
        return longest

    def _part_to_hide(self, text: str, start: int, end: int, form: str) -> tuple[int, int]:
        """Return the part of a run shared by the text and a value that must be hidden; an empty range if none."""
        first = form.find(text[start:end])
        if end - start < SURE_FRAGMENT:
            while start < end and not (_ends_word(text, start) or _ends_word(form, first)):
                start, first = start + 1, first + 1
            last = first + end - start
            while end > start and not (_ends_word(text, end) or _ends_word(form, last)):
                end, last = end - 1, last - 1
        bare = BLANK_OR_SEPARATOR.sub("", text[start:end])
        if len(bare) < LEAST_FRAGMENT or bare in self._public:
            return end, end
        if bare.isalpha() and len(bare) < SURE_FRAGMENT and not _is_quoted_or_cut(text, start, end):
            return end, end
        return start, end


def _forms(value: str) -> list[str]:
    """Return the forms of a value in messages: plain, and escaped as in Python, JSON, HTML and URLs."""
    import html  # here: its large table of entities is needed for secrets only

    encoders: list[Callable[[str], str]] = [
        lambda text: repr(text)[1:-1],
        lambda text: repr(f"{text}'")[1:-2],  # in double quotes, which leave single quotes unescaped
        lambda text: repr(f"'\"{text}")[4:-1],  # in single quotes, with both kinds in the text
        lambda text: ascii(text)[1:-1],
        lambda text: repr(text.encode(errors="surrogateescape"))[2:-1],
        lambda text: json.dumps(text)[1:-1],
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
        html.escape,
        lambda text: html.escape(text, quote=False),
        lambda text: quote(text, errors="surrogateescape"),
        lambda text: quote(text, safe="", errors="surrogateescape"),
        lambda text: quote_plus(text, errors="surrogateescape"),
        unquote,
        unquote_plus,
    ]
    if value.isalnum() and value.isascii():
        return [value]
    stripped = value.strip()  # values from files or commands often end with a newline
    forms = dict.fromkeys([value, stripped, *(encode(text) for encode in encoders for text in (value, stripped))])
    if "\\" in value or "\n" in value:  # quoted twice
        forms |= dict.fromkeys(repr(form)[1:-1] for form in list(forms))
    return [form for form in forms if form]


def _lower(text: str) -> str:
    """Return `text` in lower case, with the same number of characters."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _end_of_run(text: str, start: int, form: str) -> int:
    """Return the end of the longest run of `text` from `start` that `form` contains, by bisection."""
    low, high = start + LEAST_FRAGMENT, min(len(text), start + len(form))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[start:middle] in form else (low, middle - 1)
    return low


def _ends_word(text: str, i: int) -> bool:
    """Return whether `i` is a word boundary."""
    return i <= 0 or i >= len(text) or not (text[i - 1].isalnum() and text[i].isalnum())


def _is_quoted_or_cut(text: str, start: int, end: int) -> bool:
    beside = text[max(0, start - 1) : start] + text[end : end + 1]
    return bool(IN_QUOTES_OR_PATH & set(beside)) or text[:start].endswith(CUT) or text.startswith(CUT, end)


_REPEATED = re.compile(r"(\$\{\w+\})(?:[\s/\\.,:;_&?=%-]{0,2}\1)+")


def _merged(text: str) -> str:
    """Return `text` with adjacent references to one value merged."""
    return _REPEATED.sub(r"\1", text)
