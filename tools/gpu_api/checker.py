"""Checker of Python files for uses of RAPIDS that its API does not have: names, keywords, numbers of arguments.

It follows imports (also inside functions), variables, results of known calls, annotations such as ``cudf.DataFrame``,
``self``, and three conventions of gpupipe:

- ``xp`` is NumPy or CuPy: its names must exist in both, with the same keywords. In the files of one backend it is that
  backend's module.
- ``backend.frame`` is pandas or cuDF; in the GPU backend, ``self.frame`` is cuDF.
- A string such as ``"cuml.linear_model:Ridge"`` is a reference of the form ``"module:Name"``.

Unknown values are not checked. `calls` checks the arguments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.gpu_api.api import Api, Thing
from tools.gpu_api.calls import judge, judge_numpy, numpy_has

Value = tuple[Thing, ...]
"""Possible values of an expression; empty if unknown."""

FRAME, SERIES = "cudf.core.dataframe.DataFrame", "cudf.core.series.Series"
GROUPS = "cudf.core.groupby.groupby.DataFrameGroupBy", "cudf.core.groupby.groupby.SeriesGroupBy"
# class and kind of key → class of the item
ITEMS: dict[tuple[str, type[ast.expr]], str] = {
    (FRAME, ast.Constant): SERIES,
    (FRAME, ast.List): FRAME,
    (FRAME, ast.Slice): FRAME,
    (SERIES, ast.Slice): SERIES,
    (GROUPS[0], ast.List): GROUPS[0],
    (GROUPS[0], ast.Constant): GROUPS[1],
}
SAME_CLASS = {FRAME, SERIES, "cupy.ndarray"}  # types that arithmetic preserves
UNKNOWN_PACKAGES = {"pylibcudf", "pylibraft", "raft_dask", "ucxx"}  # GPU packages that are not in the snapshots
XP = (Thing("module", "cupy", shared=True),)
CUPY, CUDF = (Thing("module", "cupy"),), (Thing("module", "cudf"),)
BY_FOLDER: dict[str, Value] = {"gpu": CUPY, "cpu": ()}
"""Folder in ``backends`` → module that ``xp`` is in its files."""


def check(files: Iterable[Path], api: Api) -> list[str]:
    """Return a line ``file:line: problem`` for each problem."""
    return [problem for file in files for problem in check_text(file.read_text(), str(file), api)]


def check_text(text: str, file: str, api: Api) -> list[str]:
    """Return the problems of one file, given as text."""
    checker = Checker(file, api)
    checker.visit(ast.parse(text, file))
    checker.visit_bodies()
    return [f"{file}:{line}: {what}" for line, what in sorted(checker.problems)]


class Checker(ast.NodeVisitor):
    """Visitor of one file. Visiting an expression returns its `Value`; inner scopes are visited last."""

    def __init__(self, file: str, api: Api) -> None:
        self.api = api
        self.problems: set[tuple[int, str]] = set()
        self.scopes: list[dict[str, Value]] = [{}]
        self.selves: dict[str, dict[str, Value]] = {}
        self.bodies: list[Callable[[], None]] = []
        folder = Path(file).parent
        self.xp = BY_FOLDER.get(folder.name, XP) if folder.parent.name == "backends" else XP
        self.roots = re.compile(rf"({'|'.join(sorted(api.roots))})(\.\w+)*:\w+(\.\w+)*")

    def visit_bodies(self) -> None:
        """Visit the bodies of functions, which see every name of the enclosing module."""
        while self.bodies:
            self.bodies.pop(0)()

    def report(self, node: ast.AST, what: str) -> None:
        self.problems.add((getattr(node, "lineno", 0), what))

    def value(self, node: ast.AST | None) -> Value:
        return (self.visit(node) or ()) if node else ()

    # names

    def look_up(self, name: str) -> Value:
        if name == "xp":
            return self.xp
        in_annotations: Value = (Thing("module", name),) if name in self.api.roots else ()
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), in_annotations)

    def bind(self, target: ast.AST, value: Value = ()) -> None:
        """Bind a name to its value; names bound in patterns and loops are unknown."""
        if isinstance(target, ast.Name):
            self.scopes[-1][target.id] = value
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            for thing in self.look_up(target.value.id):
                if thing.name in self.selves:
                    names = self.selves[thing.name]
                    names[target.attr] = value if names.get(target.attr, value) == value else ()
        elif isinstance(target, ast.Tuple | ast.List | ast.Starred):
            for part in ast.iter_child_nodes(target):
                self.bind(part)
        elif isinstance(target, ast.Subscript):
            self.visit(target)

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            root = name.name.partition(".")[0]
            module = name.name if name.asname else root
            known = self.is_module(node, name.name)
            self.scopes[-1][name.asname or root] = (Thing("module", module),) if known else ()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        known = not node.level and self.is_module(node, node.module or "")
        for name in node.names:
            found: Value = ()
            if known and f"{node.module}.{name.name}" in self.api.modules:
                found = (Thing("module", f"{node.module}.{name.name}"),)
            elif known:
                found = self.member(node, (Thing("module", node.module or ""),), name.name)
            self.scopes[-1][name.asname or name.name] = found

    def is_module(self, node: ast.AST, name: str) -> bool:
        """Return whether the API has a module; report a missing one."""
        root = name.partition(".")[0]
        if name not in self.api.modules and root in self.api.roots | UNKNOWN_PACKAGES:
            self.report(node, f"no module {name} in the snapshot{self.api.hint(name, self.api.modules)}")
        return name in self.api.modules

    # statements that bind

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        annotated, value = self.annotation(node.annotation), self.value(node.value)
        self.bind(node.target, annotated or value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars:
                self.bind(item.optional_vars)
        self.visit_all(node.body)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.visit_branches(node.body, node.orelse)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.forget_assigned(node)
        self.visit_branches([node.target, *node.body], node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.forget_assigned(node)
        self.visit(node.test)
        self.visit_branches(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self.visit_branches([*node.body, *node.orelse], *(handler.body for handler in node.handlers))
        self.visit_all(node.finalbody)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self.visit_branches(*(case.body for case in node.cases), [])

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_branches(self, *branches: list[ast.AST] | list[ast.stmt]) -> None:
        """Visit each branch from the same state; afterwards a name may have the value of any branch."""
        scope, before = self.scopes[-1], dict(self.scopes[-1])
        ends = []
        for branch in branches:
            self.visit_all(branch)
            ends.append(dict(scope))
            scope.clear()
            scope.update(before)
        for name in {name for end in ends for name in end}:
            values = [end[name] for end in ends if name in end]
            scope[name] = tuple(dict.fromkeys(t for value in values for t in value)) if all(values) else ()

    def forget_assigned(self, loop: ast.AST) -> None:
        """Forget the names that a loop binds: later iterations start with other values than the first."""
        for node in ast.walk(loop):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bind(node)

    # functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(part)
        results = self.annotation(node.returns)
        names = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        made = Thing("callable", node.name, "", tuple(thing.name for thing in results))
        self.scopes[-1][node.name] = results if names & {"property", "cached_property"} else (made,) if results else ()
        own = {argument.arg: self.annotation(argument.annotation) for argument in arguments(node.args)}
        around = self.scopes[:]
        if around[-1] in self.selves.values():  # a method sees the names of its class only through self
            owner = next(name for name, scope in self.selves.items() if scope is around[-1])
            around.pop()
            own |= {node.args.args[0].arg: (Thing("instance", owner),)} if node.args.args else {}
        self.bodies.append(lambda: self.visit_body([*around, own], node.body))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_body(self, scopes: list[dict[str, Value]], body: list[ast.stmt]) -> None:
        outer, self.scopes = self.scopes, scopes
        self.visit_all(body)
        self.scopes = outer

    def visit_Lambda(self, node: ast.Lambda) -> None:
        with self.scope({argument.arg: () for argument in arguments(node.args)}):
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in [*node.bases, *node.decorator_list]:
            self.visit(part)
        names: dict[str, Value] = {}
        self.selves[f"{node.name}@{node.lineno}"] = names
        with self.scope(names):
            self.visit_all(node.body)

    @contextmanager
    def scope(self, names: dict[str, Value]) -> Iterator[None]:
        self.scopes.append(names)
        yield
        self.scopes.pop()

    def annotation(self, node: ast.expr | None) -> Value:
        """Return instances of the classes that an annotation names, ignoring None."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
        if isinstance(node, ast.BinOp):
            sides = [self.annotation(side) for side in (node.left, node.right) if not is_none(side)]
            return tuple(thing for side in sides for thing in side) if all(sides) else ()
        return tuple(Thing("instance", thing.name) for thing in self.value(node) if thing.kind == "class")

    # expressions

    def visit_Name(self, node: ast.Name) -> Value:
        if isinstance(node.ctx, ast.Store):
            self.bind(node)
        return self.look_up(node.id)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and self.roots.fullmatch(node.value):
            found = self.api.find(node.value)
            if isinstance(found, str):
                self.report(node, found)

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        owner = self.value(node.value)
        if node.attr == "xp":
            return self.xp
        if node.attr == "frame" and (last_name(node.value) == "backend" or self.is_own(node.value)):
            return CUDF
        return self.member(node, owner, node.attr)

    def is_own(self, node: ast.expr) -> bool:
        """Return whether an expression is ``self`` in a file of the GPU backend."""
        return last_name(node) == "self" and self.xp is CUPY

    def member(self, node: ast.AST, owners: Value, name: str) -> Value:
        """Return the value of an attribute of `owners`; report a name that none of them has."""
        if any(owner.name in self.selves for owner in owners):
            return self.selves[owners[0].name].get(name, ())
        found = [self.api.member(owner, name) for owner in owners]
        missing = [item for item in found if isinstance(item, str)]
        if missing and len(missing) == len(found):
            self.report(node, missing[0])
        for owner in owners:
            if owner.shared and not numpy_has(owner.name, name):
                self.report(node, f"numpy{owner.name.removeprefix('cupy')} has no {name}, and xp may be NumPy")
        known = [item for item in found if not isinstance(item, str)]
        return tuple(thing for item in known for thing in item) if all(known) else ()

    def visit_Call(self, node: ast.Call) -> Value:
        called = self.value(node.func)
        self.visit_all([*node.args, *(keyword.value for keyword in node.keywords)])
        if last_name(node.func) == "import_module" and isinstance(node.args[0], ast.Constant):
            name = str(node.args[0].value)
            return (Thing("module", name),) if self.is_module(node, name) else ()
        things = [self.api.constructor(thing) if thing.kind == "class" else thing for thing in called]
        problems = [judge(thing, node, self.api) for thing in things]
        if problems and all(problems):
            self.report(node, problems[0])
        for thing in things:
            if thing.shared and (problem := judge_numpy(thing.name, node)):
                self.report(node, problem)
        if not all(thing.results for thing in things):
            return ()
        return tuple(Thing("instance", result) for thing in things for result in thing.results)

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        owners = self.value(node.value)
        self.visit(node.slice)
        if owners == (Thing("instance", "cupy.ndarray"),):
            return owners
        items = [ITEMS.get((owner.name, type(node.slice)), "") for owner in owners if owner.kind == "instance"]
        return tuple(Thing("instance", item) for item in items) if all(items) else ()

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        return self.same_class(node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> Value:
        value = self.same_class(node.left, *node.comparators)
        return () if any(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in node.ops) else value

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.same_class(node.operand)
        return () if isinstance(node.op, ast.Not) else value

    def same_class(self, *operands: ast.expr) -> Value:
        """Return the result of arithmetic: the common class of all operands other than plain numbers."""
        values = {self.value(node) for node in operands if not isinstance(node, ast.Constant)}
        [value, *others] = values or {()}
        return value if not others and all(t.kind == "instance" and t.name in SAME_CLASS for t in value) else ()

    def visit_IfExp(self, node: ast.IfExp) -> Value:
        self.visit(node.test)
        sides = self.value(node.body), self.value(node.orelse)
        return sides[0] + sides[1] if all(sides) else ()

    def visit_comprehension_of(self, node: ast.expr) -> None:
        with self.scope({}):
            for part in node.generators:  # type: ignore[attr-defined]
                self.visit(part.iter)
                self.bind(part.target)
                self.visit_all(part.ifs)
            fields = [getattr(node, name, None) for name in ("elt", "key", "value")]
            self.visit_all(field for field in fields if field)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_comprehension_of


def arguments(args: ast.arguments) -> Iterator[ast.arg]:
    """Yield every parameter of a function."""
    yield from (*args.posonlyargs, *args.args, *args.kwonlyargs)
    yield from filter(None, (args.vararg, args.kwarg))


def last_name(node: ast.expr) -> str:
    """Return the part after the last dot."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_none(node: ast.expr) -> bool:
    """Return whether an annotation is None."""
    return isinstance(node, ast.Constant) and node.value is None
