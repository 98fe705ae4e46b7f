"""Composition of YAML text into a document: values with their location, ``${NAME}`` replaced, hostile YAML refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml

from gpupipe.config.document import EnvironmentValue, Node, Problem, UnreadableDocument, join_path
from gpupipe.config.environment import interpolate
from gpupipe.config.scalars import STR, Loader, Scalar, construct, resolve

MAX_DEPTH = 30
MAX_ALIASES = 100
MAX_VALUES = 20_000
MAX_CHARACTERS = 1_000_000

COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_MERGE = "<<"


class Composer:
    """Composer of YAML text into nodes, which collects errors in `problems`.

    `environment` has the values for ``${NAME}``.

    - `secrets`: names and values of the variables that are used in text and must not be shown.
    - `settings`: expanded texts that contain such values, each with the text as written.
    """

    def __init__(self, environment: Mapping[str, str], problems: list[Problem]) -> None:
        self.environment = environment
        self.problems = problems
        self.secrets: dict[str, str] = {}
        self.settings: dict[str, str] = {}

    def file(self, text: str, name: str) -> Node:
        """Compose a whole file and return its top level, which must be a mapping."""
        root = self._compose(text, name, place=lambda mark: f"{name}:{mark.line + 1}:{mark.column + 1}", path="")
        if not isinstance(root.value, dict):
            kind = "nothing" if root.value is None else "a list" if isinstance(root.value, list) else repr(root.value)
            raise UnreadableDocument(root.where, f"expected sections (source: ..., models: ...), got {kind}")
        return root

    def value(self, text: str, where: str, path: str) -> Node:
        """Compose one value outside a file, such as that of ``--set``, and return its node."""
        return self._compose(text, where, place=lambda mark: where, path=path)

    def _compose(self, text: str, name: str, place: Callable[[yaml.Mark], str], path: str) -> Node:
        self._place, self._count = place, 0
        try:
            _refuse_bombs(text, name)
            root = yaml.compose(text, Loader=Loader)
        except yaml.MarkedYAMLError as error:
            raise UnreadableDocument(*self._syntax_problem(error, text, name)) from None
        except yaml.YAMLError as error:
            raise UnreadableDocument(name, f"not valid YAML: {error}") from None
        if root is None:
            return Node(None, place(yaml.Mark(name, 0, 0, 0, None, 0)), "", path)
        return self._node(root, path, key_where=place(root.start_mark), depth=0)

    def _syntax_problem(self, error: yaml.MarkedYAMLError, text: str, name: str) -> tuple[str, str]:
        mark = error.problem_mark or error.context_mark
        where = self._place(mark) if mark else name
        line = text.splitlines()[mark.line : mark.line + 1] if mark else []
        hint = ""
        problem = str(error.problem)  # PyYAML 6.0 has one class for all syntax errors, so their text must be matched
        if "found character that cannot start any token" in problem and "\t" in "".join(line):
            hint = "; indent with spaces, not tabs"
        elif "${" in "".join(line):
            hint = "; quote a value with ${...} inside brackets or braces"
        elif "mapping values are not allowed" in problem:
            hint = "; quote text that contains ': '"
        elif "unknown escape character" in problem:
            hint = r"""; write a backslash twice in double quotes ("\\s+"), or use single quotes ('\s+')"""
        return where, f"not valid YAML: {error.problem or error.context}{hint}"

    def _node(self, raw: yaml.Node, path: str, key_where: str, depth: int) -> Node:
        where = self._place(raw.start_mark)
        self._count += 1
        if self._count > MAX_VALUES or depth > MAX_DEPTH:  # a recursive alias, or aliases that multiply
            raise UnreadableDocument(
                where, f"more than {MAX_VALUES:,} values or {MAX_DEPTH} levels; check for nested aliases"
            )
        value: Any
        if isinstance(raw, yaml.CollectionNode) and raw.tag not in COLLECTIONS:
            self.problems.append(Problem(where, path, f"the tag {raw.tag!r} is not allowed here"))
        if isinstance(raw, yaml.MappingNode):
            value = self._mapping(raw, path, depth)
        elif isinstance(raw, yaml.SequenceNode):
            value = [
                self._node(item, f"{path}[{i}]", self._place(item.start_mark), depth + 1)
                for i, item in enumerate(raw.value)
            ]
        else:
            return self._scalar(cast(yaml.ScalarNode, raw), where, key_where, path)
        return Node(value, where, key_where, path)

    def _mapping(self, raw: yaml.MappingNode, path: str, depth: int) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        own: dict[str, Node] = {}
        for key, value in raw.value:
            where = self._place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(where, path, "expected a plain word as the key"))
            elif key.value == _MERGE and not key.style:
                merged |= self._merge(value, path, where, depth)
            elif key.value in own:
                first = own[key.value].key_where
                self.problems.append(Problem(where, join_path(path, key.value), f"given twice; first at {first}"))
            else:
                own[key.value] = self._node(value, join_path(path, key.value), where, depth + 1)
        return merged | own

    def _merge(self, raw: yaml.Node, path: str, where: str, depth: int) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        for source in reversed(raw.value if isinstance(raw, yaml.SequenceNode) else [raw]):
            node = self._node(source, path, where, depth + 1)
            if isinstance(node.value, dict):
                merged |= node.value
            else:
                self.problems.append(Problem(node.where, join_path(path, _MERGE), "expected a mapping to merge"))
        return merged

    def _scalar(self, raw: yaml.ScalarNode, where: str, key_where: str, path: str) -> Node:
        is_word = not raw.style  # the C and Python parsers give "" and None
        if "${" not in raw.value:
            return Node(self._construct(raw.tag, raw.value, where, path), where, key_where, path)
        found = interpolate(raw.value, self.environment)
        self.problems.extend(Problem(where, path, problem) for problem in found.problems)
        is_plain = is_word and raw.tag == STR
        value = resolve(found.text) if is_plain else self._construct(raw.tag, found.text, where, path)
        written = None
        if found.secrets:
            written = EnvironmentValue(found.written, found.shown, is_word, tuple(found.secrets))
            if isinstance(value, str) or not is_plain:  # numbers and booleans are not secrets
                self.secrets |= found.secrets
                self.settings[found.text] = found.shown
        return Node(value, where, key_where, path, written)

    def _construct(self, tag: str, text: str, where: str, path: str) -> Scalar:
        try:
            return construct(tag, text)
        except ValueError as error:
            self.problems.append(Problem(where, path, str(error)))
            return None


def _refuse_bombs(text: str, name: str) -> None:
    """Raise if the text is too large, too deep, or more than one document, before a tree is built from it."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableDocument(name, f"more than {MAX_CHARACTERS:,} characters: this is not a configuration")
    depth = aliases = documents = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        mark = cast(yaml.Mark, event.start_mark)
        where = f"{name}:{mark.line + 1}:{mark.column + 1}"
        if depth > MAX_DEPTH:
            raise UnreadableDocument(where, f"more than {MAX_DEPTH} levels deep")
        if aliases > MAX_ALIASES:
            raise UnreadableDocument(where, f"more than {MAX_ALIASES} aliases")
        if documents > 1:
            raise UnreadableDocument(where, "a second YAML document begins here; expected one")
