"""Regular expressions of data rules: RE2, through Arrow, which is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupipe.errors import ConfigError

MOST_CACHED = 4096  # texts per expression
LONGEST_CACHED = 256  # letters


class TextMatcher:
    """Matcher of whole texts, which remembers the texts that it has seen. Threads may share it.

    `regex` is valid, in RE2 syntax. Raise ConfigError if pyarrow is not installed.

    Examples
    --------
    >>> TextMatcher("[a-z]+").matches(["abc", "abc\\n", "1"])
    [True, False, False]
    """

    def __init__(self, regex: str) -> None:
        self._pa, self._pc = _arrow()
        self._regex = rf"\A(?:{regex})\z"
        self._known: dict[str, bool] = {}

    def matches(self, texts: Sequence[str]) -> list[bool]:
        """Return whether the expression matches each text as a whole."""
        known = self._known
        found = {text: known.get(text) for text in texts}
        new = [text for text, match in found.items() if match is None]
        if new:
            answers = self._pc.match_substring_regex(self._pa.array(new, self._pa.large_string()), self._regex)
            found.update(zip(new, answers.to_pylist(), strict=True))
            if len(known) + len(new) > MOST_CACHED:
                self._known = known = {}
            known.update((text, bool(found[text])) for text in new[:MOST_CACHED] if len(text) <= LONGEST_CACHED)
        return [bool(found[text]) for text in texts]

    def accepts(self, text: str) -> bool:
        """Return whether the expression matches a text as a whole."""
        match = self._known.get(text)
        return self.matches((text,))[0] if match is None else match


def require_valid(regex: str) -> None:
    """Raise ValueError if RE2 cannot compile an expression, and ConfigError if pyarrow is not installed."""
    pa, pc = _arrow()
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        # The messages of pyarrow 26.0 start with its own error category.
        reason = str(error).partition(": ")[2] or error
        raise ValueError(f"invalid regular expression (RE2): {reason}") from None


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ImportError:
        raise ConfigError(
            "a data rule with `regex` needs pyarrow, which is not installed", fix="pip install pyarrow"
        ) from None
    return pa, pc
