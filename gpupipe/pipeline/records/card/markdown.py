"""Markdown of model cards: text of users as text, tables and counts.

The dialect is GitHub Flavored Markdown, which GitHub, GitLab and Hugging Face render. Names and labels are code spans:
nothing in them is markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpupipe.report.text import printable

MOST_CHARACTERS = 80  # of a name or label
MOST_OF_TEXT = 400  # of a message

_MARKUP = re.compile(r"[\\`*\[\]<>{}|~$#&^]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside of a word is text
_AT_START = re.compile(r"^(\d*)([-+=.):])")  # of a line: a list, a heading or a table


def code(name: object) -> str:
    """Return a name or label as a code span that is safe in paragraphs and tables.

    Control characters are shown as escapes, and more than `MOST_CHARACTERS` are cut.

    Examples
    --------
    >>> print(code("signup_ts"), code("a`b"), code("<b>"), code("x|y"))
    `signup_ts` ``a`b`` `<b>` `x\\|y`
    """
    text = _shorten(printable(str(name)))
    if not text:
        return "(empty)"
    runs = re.findall("`+", text)
    # A span ends at a run of as many backticks as it began with.
    fence = next("`" * n for n in range(1, len(runs) + 2) if "`" * n not in runs)
    is_padded = text[0] == text[-1] == " " and text.strip()  # renderers remove one blank from both ends
    pad = " " if is_padded or "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def prose(text: str, most: int = MOST_OF_TEXT) -> str:
    r"""Return a text in which nothing is markup, on one line.

    Examples
    --------
    >>> print(prose("class '*' has 3 <b>rows</b> of sign_up"))
    class '\*' has 3 \<b\>rows\</b\> of sign_up
    """
    line = _MARKUP.sub(r"\\\g<0>", _shorten(printable(" ".join(text.split())), most))
    return _AT_START.sub(r"\1\\\2", line)


def _shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1) -> str:
    """Return a table of finished cells; columns after the first `n_left` are aligned to the right."""
    rule = ["---"] * n_left + ["---:"] * (len(head) - n_left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))
