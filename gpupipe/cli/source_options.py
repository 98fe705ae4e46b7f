"""Reader options on the command line, shared by ``init`` and ``predict``: ``--source KEY=VALUE``.

The keys are the reader options of the ``source:`` section: ``--source format=csv``, ``--source csv.delimiter=";"``,
``--source csv.encoding=latin-1``. ``--isolate``, which the help does not list, is short for ``--source isolate=true``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from gpupipe.errors import ConfigError, GpupipeError, did_you_mean
from gpupipe.names import count_noun

if TYPE_CHECKING:
    from gpupipe.config.composer import Composer
    from gpupipe.config.document import Node
    from gpupipe.io.settings import TableSource

MARKS = ("csv.delimiter", "csv.decimal", "csv.thousands", "csv.quote")  # single characters, often YAML syntax
ESCAPED = {"\\t": "\t", "tab": "\t"}
# Advice about configurations in messages of readers, and its equivalent on the command line.
REWRITES = (
    (r"or [\w ]+:? csv: \{bad_rows: skip\}", "or write such rows to a file: --on-error reject"),
    (r"csv: \{(\w+): ([^{}]*)\}", r"--source csv.\1=\2"),
    (r"source: \{isolate: true\}", "--source isolate=true"),
    (r"\boutside_files: true", "--source outside_files=true"),
    (r"\bsource\.format: (\w+)", r"--source format=\1"),
    (r"(?<!--source )(?<!['./])\bcsv\.(\w+)", r"--source csv.\1"),
    (r"relative to the configuration", "relative to the current folder"),
    (r",? or exclude it with drop", ""),
    (r", or (?:take it out of|remove it from) columns, target and where", ""),
)


def source_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--source KEY=VALUE`` to a click command as the parameter `source_options`."""

    @click.option(
        "--source",
        "source_options",
        multiple=True,
        metavar="KEY=VALUE",
        help='Set a reader option: --source csv.delimiter=";" --source format=csv. Repeatable.',
    )
    @click.option("--isolate", is_flag=True, hidden=True)
    @wraps(command)
    def with_options(*args: Any, source_options: tuple[str, ...], isolate: bool, **options: Any) -> Any:
        given = (*source_options, "isolate=true") if isolate else source_options
        return command(*args, source_options=given, **options)

    return with_options


def parse_source_options(values: Sequence[str], base: TableSource) -> TableSource:
    """Return `base` with the ``--source`` options applied in order.

    `values`: ``"csv.delimiter=;"``. Values are parsed as YAML, except for the single-character options of ``csv``,
    which are taken literally (``\\t`` and ``tab`` mean a tab).

    Raises
    ------
    ConfigError
        With one line in ``problems`` per option that is unknown, malformed or out of range.

    Examples
    --------
    >>> from gpupipe.io.settings import TableSource
    >>> parse_source_options(["csv.delimiter=;", "isolate=true"], TableSource(path="sales.csv")).csv.delimiter
    ';'
    """
    if not values:
        return base
    from pydantic import ValidationError

    from gpupipe.config.composer import Composer
    from gpupipe.config.document import UnreadableDocument
    from gpupipe.config.problems import problems_of

    options: dict[str, Node] = {}
    problems: list[str] = []
    keys = _keys()
    composer = Composer({}, problems=[])  # no variables: ${NAME} is up to the shell
    for option in values:
        key, equals, text = option.partition("=")
        key, where = key.strip(), f"--source {option}"
        if key not in keys:
            hint = did_you_mean(key, keys) or f"the options are {', '.join(keys)}"
            problems.append(f"{where}: {'unknown option' if equals else 'expected KEY=VALUE'}; {hint}")
        elif not equals:
            problems.append(f"{where}: expected KEY=VALUE, for example {key}=...")
        else:
            try:
                options[key] = _value(key, text, where, composer)
            except UnreadableDocument as error:
                problems.append(str(error.problem))
    problems += [str(problem) for problem in composer.problems]
    root = _merged(options, base)
    try:
        adjusted = type(base).model_validate(root.plain())
    except ValidationError as error:
        problems += [str(problem) for problem in problems_of(error, root, type(base))]
    if not problems:
        return adjusted
    raise ConfigError(f"{count_noun(len(problems), 'invalid --source option')}:", problems=problems)


def _keys() -> tuple[str, ...]:
    from gpupipe.io.csv_settings import CsvSettings  # here: `--help` needs no pydantic

    return ("format", *(f"csv.{name}" for name in CsvSettings.model_fields), "isolate", "outside_files")


def _value(key: str, text: str, where: str, composer: Composer) -> Node:
    from gpupipe.config.document import Node

    if key in MARKS and (len(text) == 1 or text in ESCAPED):
        return Node(ESCAPED.get(text, text), where, where, key)
    return composer.value(text, where, key)


def _merged(options: dict[str, Node], base: TableSource) -> Node:
    """Return the section as a tree in which the location of each option is the command line."""
    from gpupipe.config.document import Node, build_tree

    root = build_tree(base.model_dump(by_alias=True, exclude_unset=True), where="--source")
    for key, node in options.items():
        section, _, field = key.rpartition(".")
        fields: Any = root.value
        if section:
            fields = fields.setdefault(section, Node({}, node.where, node.where, section)).value
        fields[field] = node
    return root


@contextmanager
def use_command_line_terms() -> Iterator[None]:
    """Reword errors raised in the ``with`` block for the command line."""
    try:
        yield
    except GpupipeError as error:
        error.what, error.fix = rewrite_terms(error.what), rewrite_terms(error.fix)
        if isinstance(error, ConfigError):
            error.title = "Usage error"
        raise


def rewrite_terms(text: str) -> str:
    """Return `text` with settings of a configuration rewritten as command-line options.

    >>> rewrite_terms("set the encoding, as in csv: {encoding: latin-1}")
    'set the encoding, as in --source csv.encoding=latin-1'
    >>> rewrite_terms("sales.csv.gz: csv.decimal is ','")
    "sales.csv.gz: --source csv.decimal is ','"
    """
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text)
    return text
