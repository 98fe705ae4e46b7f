"""House rules that a program can check."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tools import rooms

ROOT = Path(__file__).parent.parent
ENTRY_POINTS = {"gpupipe.ops", "gpupipe.models", "gpupipe.readers", "gpupipe.metrics"}  # groups, not modules
MODULES = sorted([*ROOT.glob("gpupipe/**/*.py"), *ROOT.glob("kernels/gpupipe_kernels/**/*.py")])
PROGRAMS = sorted([*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("tools/**/*.py")])
MAX_NODES = 4100
"""Of the syntax tree of a module: packed lines do not make it smaller, and room to breathe not larger."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(module: Path) -> ast.Module:
    return ast.parse(module.read_text(), name_of(module))


def test_the_kernels_folder_is_not_a_package() -> None:
    """With an __init__.py it would hide Hugging Face's `kernels`, which transformers imports."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_the_tests_are_not_a_package() -> None:
    assert not list(ROOT.glob("tests/**/__init__.py"))


@pytest.mark.parametrize("package", ["gpupipe", "kernels/gpupipe_kernels"])
def test_the_packages_are_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_every_package_folder_has_an_init_file() -> None:
    folders = {module.parent for module in [*MODULES, *PROGRAMS]}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_module_is_too_long_to_read() -> None:
    sizes = {name_of(module): sum(1 for _ in ast.walk(parse(module))) for module in [*MODULES, *PROGRAMS]}
    assert {name: nodes for name, nodes in sizes.items() if nodes > MAX_NODES} == {}


def test_an_assignment_has_at_most_two_names_in_parallel() -> None:
    """Compiled loops aside: there the order of loads and stores is part of the machine code."""
    crowded = [
        f"{name_of(module)}:{node.lineno}"
        for module in [*MODULES, *PROGRAMS]
        if "kernels" not in module.relative_to(ROOT).parts
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and len(node.value.elts) > 2
    ]
    assert crowded == []


def test_a_comprehension_has_one_loop_and_one_condition() -> None:
    """A second loop has a name: of a function, of a method of the outer element, `chain` or `product`."""
    crowded = []
    for module in MODULES:
        found = (node for node in ast.walk(parse(module)) if isinstance(node, COMPREHENSIONS))
        crowded += [f"{name_of(module)}:{node.lineno}" for node in found if is_crowded(node.generators)]
    assert crowded == []


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_crowded(loops: list[ast.comprehension]) -> bool:
    return len(loops) > 1 or len(loops[0].ifs) > 1


def test_only_tables_of_data_are_formatted_by_hand() -> None:
    """Each line that ends with ``fmt: skip`` ends a literal, or a call of one name with a literal."""
    by_hand = []
    for module in [*MODULES, *PROGRAMS]:
        lines = [n for n, line in enumerate(module.read_text().splitlines(), 1) if "# fmt: skip" in line]
        tables = {node.end_lineno for node in ast.walk(parse(module)) if isinstance(node, ast.stmt) and is_table(node)}
        by_hand += [f"{name_of(module)}:{n}" for n in lines if n not in tables]
    assert by_hand == []


def is_table(statement: ast.stmt) -> bool:
    """Return whether a statement is a literal of six or more constants or names, as in ``NAMES = frozenset({...})``."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        value = value.args[0] if value.args else None
    if not isinstance(value, ast.List | ast.Set | ast.Dict | ast.Tuple):
        return False
    return sum(isinstance(node, ast.Constant | ast.Attribute) for node in ast.walk(value)) >= 6


def test_python_is_started_in_one_place() -> None:
    """Elsewhere it would import from the current folder, which may hold untrusted files."""
    starting = {
        name_of(module)
        for module in MODULES
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Attribute) and node.attr in ("executable", "_base_executable")
    }
    assert starting == {"gpupipe/children/commands.py"}


def test_everything_public_has_a_docstring() -> None:
    assert [name for module in [*MODULES, *PROGRAMS] for name in undocumented(module)] == []


EXPLAINED_ELSEWHERE = {"overload", "host_block", "host_step", "host_walk"}
"""Decorators of functions that need no docstring: a module's speaks for its compiled loops, one overload for all."""


def undocumented(module: Path) -> Iterator[str]:
    """Yield the public functions and classes of a module that have no docstring, and the module itself."""
    tree = parse(module)
    if tree.body and ast.get_docstring(tree) is None:
        yield name_of(module)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if EXPLAINED_ELSEWHERE & {d.id for d in node.decorator_list if isinstance(d, ast.Name)}:
            continue
        if not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"{name_of(module)}: {node.name}"


def test_imports_go_down_the_layers_only() -> None:
    lint_imports = shutil.which("lint-imports", path=os.path.dirname(sys.executable))
    if lint_imports is None:
        pytest.skip("import-linter is not installed: it comes with the extra 'dev'")
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    done = subprocess.run(
        [lint_imports, "--no-cache", "--no-logo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


MAX_PARAMETERS = 8
LONG_SIGNATURES = {
    "metrics/evaluation.py: _predictions", "metrics/evaluation.py: evaluate", "partitions/scoring.py: _score_chunk",
    "pipeline/api/pipeline.py: __init__", "pipeline/records/run_report.py: write_report",
    "tensors/batches.py: __init__", "training/fit.py: select_rows", "training/fit.py: train",
}  # fmt: skip
"""Functions with more parameters than `MAX_PARAMETERS`. The list may only become shorter."""


def test_functions_have_few_parameters() -> None:
    """Not the compiled loops of the kernels, nor the commands, which take one parameter for each option."""
    found = {
        f"{name_of(module).removeprefix('gpupipe/')}: {node.name}"
        for module in MODULES
        if name_of(module).startswith("gpupipe/")
        for node in ast.walk(parse(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and n_parameters(node) > MAX_PARAMETERS
        if not any(ast.unparse(each).startswith("click.") for each in node.decorator_list)
    }
    assert found == LONG_SIGNATURES


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor inside functions, where the circle would only be hidden; imports for type checkers do not run."""
    graph = {module: rooms.imports(module) - {module} for module in rooms.modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


def test_a_module_named_in_a_text_exists() -> None:
    """Renamed modules would otherwise remain in comments, messages and commands, where no import fails."""
    texts = {*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("*/*/*.md")}
    texts -= {ROOT / "CHANGELOG.md", ROOT / "docs" / "changelog.md"}  # it says what was
    files = [*MODULES, *PROGRAMS, *texts]
    files += [*ROOT.glob("docker/*"), *ROOT.glob(".ci/*")]
    files += [ROOT / "Makefile", ROOT / "pyproject.toml"]
    missing = {
        f"{name_of(file)}: {name}"
        for file in files
        if file.is_file()
        for name in re.findall(r"(?<![.\w])(?:gpupipe(?:_kernels)?|benchmarks|tools)(?:\.\w+)+", file.read_text())
        if not name.endswith((".json", ".md", ".tar.gz", ".pem", ".__file__"))
        and name not in ENTRY_POINTS
        and not exists(name)
    }
    assert missing == set()


def test_a_path_named_in_a_text_exists() -> None:
    """A path is complete, or begins anywhere below the packages: `io/formats/registry.py`."""
    files = [path for folder in ("gpupipe", "kernels", *DEVELOPER_FOLDERS) for path in (ROOT / folder).rglob("*.*")]
    known = {"/" + name_of(path) for path in [*files, *ROOT.glob("*/*")]}
    ends = {end for name in known for end in endings(name)}
    texts = {*ROOT.glob("*.md"), *ROOT.glob("docs/design/*.md"), *MODULES} - {ROOT / "CHANGELOG.md"}
    missing = {
        f"{name_of(text)}: {path}"
        for text in texts
        for path in re.findall(r"`([\w/]+/\w+\.py)`", text.read_text())
        if f"/{path}" not in ends
    }
    assert missing == set()


DEVELOPER_FOLDERS = ("tests", "tools", "benchmarks", "docs")


def endings(name: str) -> Iterator[str]:
    """Yield the ends of a path that begin with a slash, itself first."""
    at = 0
    while at >= 0:
        yield name[at:]
        at = name.find("/", at + 1)


def test_the_map_of_a_package_names_every_module() -> None:
    """A docstring whose lines begin with modules is a map; a package without one is in the page of the rooms only."""
    forgotten = {}
    for init in (module for module in MODULES if module.name == "__init__.py"):
        text = ast.get_docstring(parse(init)) or ""
        if len(re.findall(r"^(?:- )?``\w+``", text, re.MULTILINE)) > 1:
            names = {
                path.stem for path in init.parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
            }
            forgotten[name_of(init)] = names - {"__init__", "__main__"} - set(re.findall(r"``(\w+)``", text))
    assert {init: names for init, names in forgotten.items() if names} == {}


def test_the_page_of_the_rooms_is_up_to_date() -> None:
    stale = {
        name_of(path)
        for path, make in ((rooms.PAGE, rooms.page), (rooms.PICTURE, rooms.picture))
        if path.read_text() != make()
    }
    assert stale == set(), "run `python -m tools.rooms`"


@cache
def exists(name: str) -> bool:
    """Return whether a dotted name is one of our modules, or a name in one, without imports: some need a GPU."""
    package, *parts = name.split(".")
    place = ROOT / "kernels" / package if package == "gpupipe_kernels" else ROOT / package
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    module = place / "__init__.py"
    if parts and (file := place / f"{parts[0]}.py").is_file():
        module, parts = file, parts[1:]
    statements = ast.parse(module.read_text()).body[1:]  # its text may be as old as its name
    code = "\n".join(map(ast.unparse, statements))
    return not parts or re.search(rf"\b{parts[0]}\b", code) is not None


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for module in MODULES:
        for node in parse(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(module))
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


FIELD_TERMS = {
    "backed", "bearing", "boosting", "clustering", "encoding", "finding", "fitted", "hashing", "keyed",
    "lowering", "pruning", "ranking", "rolling", "sampling", "scaling", "scoring", "stopping", "training", "tuning",
    "typing", "untrusted",
}  # fmt: skip
"""Established terms and names of things that end as a gerund or a participle does."""


def test_module_names_are_nouns() -> None:
    """Not after acts (gerunds), states (participles) or questions: `reductions`, not `sweeping` or `whose`."""
    names = {part for module in MODULES for part in module.relative_to(ROOT).with_suffix("").parts}
    heads = {name: name.split("_")[-1] for name in names}
    acts = {name for name, head in heads.items() if re.search(r"(ing|ed)$", head) and head not in FIELD_TERMS}
    questions = {name for name in names if re.match(r"(who|whose|what|which|when|why|how)(_|$)", name)}
    assert acts | questions == set()


def test_modules_with_a_common_prefix_are_a_folder() -> None:
    """More than three files with one prefix belong in a folder."""
    families: dict[str, set[str]] = {}
    for module in MODULES:
        prefix = f"{name_of(module.parent)}/{module.stem.split('_')[0]}"
        families.setdefault(prefix, set()).add(module.name)
    assert {prefix: names for prefix, names in families.items() if len(names) > 3 and prefix[-1] != "/"} == {}
