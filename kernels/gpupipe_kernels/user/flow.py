"""Control-flow analysis of user functions: missing returns and reads of unassigned names.

Python would raise at run time; compiled code would continue with undefined memory. Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import chain


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all its descendants in source order."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        fields = (value if isinstance(value, list) else [value] for _, value in ast.iter_fields(node))
        below = list(chain.from_iterable(fields))
        waiting.extend(child for child in reversed(below) if isinstance(child, ast.AST))


class Flow:
    """Control flow through the body of a function.

    Parameters
    ----------
    body : list of ast.stmt
    parameters : sequence of str
    local : set of str
        Every name that the function assigns.

    Attributes
    ----------
    early : list of ast.Name
        Reads of local names that may be unassigned. A loop may have no iterations, so its assignments count only inside
        the loop.
    reaches_end : bool
        Whether the function may end without ``return``.
    """

    def __init__(self, body: list[ast.stmt], parameters: Sequence[str], local: set[str]) -> None:
        self._local = local
        self.early: list[ast.Name] = []
        self.reaches_end = self._block(body, set(parameters)) is not None

    def _block(self, body: list[ast.stmt], known: set[str]) -> set[str] | None:
        """Return the names assigned after a block, or None if its end is never reached."""
        after: set[str] | None = known
        for statement in body:
            if after is None:
                break
            after = self._statement(statement, after)
        return after

    def _statement(self, statement: ast.stmt, known: set[str]) -> set[str] | None:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._read(test, known)
                first, second = self._block(body, known), self._block(orelse, known)
                return second if first is None else first if second is None else first & second
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                self._read(iterated, known)
                self._block(body, known | _stored(target))
                self._block(orelse, known)
                return known
            case ast.While(test=test, body=body, orelse=orelse):
                self._read(test, known)
                self._block(body, known)
                self._block(orelse, known)
                return known
            case ast.AugAssign(target=ast.Name() as target):
                self._require(target, known)
        self._read(statement, known)
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
            return None
        has_value = not isinstance(statement, ast.AnnAssign) or statement.value is not None
        return known | _stored(statement) if has_value else known

    def _read(self, node: ast.AST, known: set[str]) -> None:
        for name in walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                self._require(name, known)

    def _require(self, name: ast.Name, known: set[str]) -> None:
        if name.id in self._local and name.id not in known:
            self.early.append(name)


def _stored(node: ast.AST) -> set[str]:
    return {name.id for name in walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
