"""Reader settings in error messages, as the command line spells them.

Readers name settings as the configuration has them (``csv: {encoding: latin-1}``); whoever scores a table has a model
and no configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.errors import ConfigError, GpupipeError

REWRITES = (
    (r"or leave such rows out: csv: \{bad_rows: skip\}", "or write such rows to a file: --on-error reject"),
    (r"csv: \{(\w+): ([^{}]*)\}", r"--source csv.\1=\2"),
    (r"source: \{isolate: true\}", "--isolate"),
    (r"\bsource\.format: (\w+)", r"--source format=\1"),
    (r"(?<!--source )(?<!['./])\bcsv\.(\w+)", r"--source csv.\1"),
    (r"relative to the configuration", "relative to the current folder"),
    (r",? or leave the column out with drop", ""),
    (r", or take it out of columns, target and where", ""),
)


@contextmanager
def use_command_line_terms() -> Iterator[None]:
    """Raise every error of the block in the words of the command line."""
    try:
        yield
    except GpupipeError as error:
        error.what, error.fix = rewrite_terms(error.what), rewrite_terms(error.fix)
        if isinstance(error, ConfigError):
            error.title = "Usage error"
        raise


def rewrite_terms(text: str) -> str:
    """Return a text with the settings of a configuration as options.

    >>> rewritten("state the encoding, as in csv: {encoding: latin-1}")
    'state the encoding, as in --source csv.encoding=latin-1'
    >>> rewritten("sales.csv.gz: csv.decimal is ','")
    "sales.csv.gz: --source csv.decimal is ','"
    """
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text)
    return text
