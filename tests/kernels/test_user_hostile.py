"""Untrusted kernel sources: accepted sources execute as displayed, and contain only arithmetic, also as byte code."""

from __future__ import annotations

import ast
import dis
import math
import types

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupipe_kernels.user.compilation import CompiledKernel
from gpupipe_kernels.user.kernel import KernelError, UserKernel, restore
from gpupipe_kernels.user.language import BUILTINS, MATH, NUMPY
from gpupipe_kernels.user.source import KernelStatement
from tests.examples import examples

HEAD = "import math\nimport gpupipe\n\n\n"
DECORATOR = '@gpupipe.kernel(out="float32", nulls="propagate")\n'
TEXT = f"{HEAD}K = 2.0\n\n\ndef g(x):\n    return x * K\n\n\n{DECORATOR}def f(a, b):\n    return g(a) + math.exp(b)\n"
ATTACK = '__import__("os").system("true")'

# Every line separator that some tool knows, what opens and closes texts, and places where Python evaluates something.
PARTS = [
    "\r", "\n", "\r\n", "\f", "\v", "\x00", "\x1a", "\x1c", "\x85", "\u2028", "\u2029", "\u202e", "\ufeff", "\\\n",
    "\t", " ", "    ",
    '"', "'", '"""', "'''", "r'''", 'f"{', '}"', "#", ";", ":", "(", ")", "@", "->", "=", ":=", ",", "*", "**",
    "# -*- coding: utf-7 -*-\n", "# coding: latin-1\n", "+AF8-", "\N{FULLWIDTH LATIN SMALL LETTER O}s", "__builtins__",
    "__class__", "__name__", "float", "def f(a, b=", "def f(a: ", ") -> ", "): return a\n", "class A(", "lambda: ",
    "x: ", "global K\n", "import os\n", "from math import exp as float\n", "if True:\n    ", "while ", "yield ",
    "return ", "match a:\n    case ", "type X = ", "def f[T: ", DECORATOR, "@g\n", '"""doc\n', ATTACK, f"@{ATTACK}\n",
    f"def f(a, b={ATTACK}): return a\n", f"    x: {ATTACK} = 1\n", f"    {ATTACK}\n", "    return a\n", "pass\n",
    "a", "1",
]  # fmt: skip


def assert_is_arithmetic(kernel: UserKernel) -> None:
    """Check the function that a kernel is compiled from, by its CPython byte code."""
    pieces = kernel.pieces
    known = BUILTINS | MATH | NUMPY | {piece.name for piece in pieces}
    plain = CompiledKernel(kernel).plain
    functions = [piece for piece in pieces if piece.function is not None]
    found = [plain, *(value for value in plain.__globals__.values() if hasattr(value, "py_func"))]
    codes = [getattr(function, "py_func", function) for function in found]
    assert len(codes) == len(functions)
    for function in codes:
        code: types.CodeType = function.__code__
        assert function.__defaults__ is None and function.__kwdefaults__ is None
        assert not function.__annotations__ and function.__doc__ is None
        assert set(code.co_names) <= known, code.co_names
        assert all(isinstance(value, (int, float, tuple, type(None))) for value in code.co_consts), code.co_consts
        assert not {"IMPORT_NAME", "STORE_GLOBAL", "STORE_ATTR", "MAKE_FUNCTION"} & {
            i.opname for i in dis.get_instructions(code)
        }


def assert_reads_as_it_runs(piece: KernelStatement) -> None:
    """Check that the source displayed to people is exactly the statement that is compiled."""
    (read,) = ast.parse(piece.text + "\n\n").body  # a backslash may end it
    assert isinstance(read, ast.FunctionDef) and piece.function is not None
    body = read.body[1:] if ast.get_docstring(read) is not None else read.body
    read_names = [node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    run_names = [
        node.id for statement in piece.function.body for node in ast.walk(statement) if isinstance(node, ast.Name)
    ]
    assert set(run_names) <= set(read_names) and not piece.function.decorator_list
    assert piece.text.splitlines() == piece.text.split("\n")


@st.composite
def hostile_texts(draw: st.DrawFn) -> str:
    """A valid source with fragments inserted several times."""
    text = TEXT
    for part, at in draw(st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 10**6)), min_size=1, max_size=6)):
        place = at % (len(text) + 1)
        text = text[:place] + part + text[place:]
    return text


SHIFTED = (
    "import gpupipe\r\r\r\n"
    f'{DECORATOR}def f(a, b):\n    """doc\ndef f(a, b={ATTACK}): return a / (1.0 + b)\n"""\n'
    '    return a / (1.0 + b)\n# """\n'
)


@examples(300)
@given(hostile_texts())
@example(SHIFTED)
@example(TEXT)
def test_whatever_is_let_in_runs_as_it_reads(text: str) -> None:
    try:
        kernel = restore(text, "stored.py")
    except KernelError:
        return
    assert_is_arithmetic(kernel)
    for piece in kernel.pieces:
        if piece.function is not None:
            assert_reads_as_it_runs(piece)


@pytest.mark.parametrize("separator", ["\r", "\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_a_line_ends_with_a_line_feed_and_nothing_else(separator) -> None:
    with pytest.raises(KernelError, match=rf"invisible character U\+{ord(separator):04X}") as caught:
        restore(SHIFTED.replace("\r", separator), "stored.py")
    assert caught.value.where == "stored.py:1"


def test_annotations_decorators_and_descriptions_are_not_compiled() -> None:
    text = TEXT.replace("def f(a, b):\n", f'def f(a: {ATTACK}, b) -> {ATTACK}:\n    "{"x" * 9}"\n    c: {ATTACK} = a\n')
    kernel = restore(text.replace("g(a)", "g(c)"), "stored.py")
    assert_is_arithmetic(kernel)
    assert kernel(1.0, 0.0) == 3.0 and kernel.source == text.replace("g(a)", "g(c)")


def test_a_kernel_is_checked_again_before_compilation() -> None:
    """A kernel whose statements were replaced after reading, as on a worker that received others."""
    (attack,) = ast.parse(f"def f(a, b={ATTACK}):\n    return a\n").body
    kernel = restore(TEXT, "stored.py")
    kernel.pieces = (*kernel.pieces[:-1], KernelStatement("f", "def f(a, b): ...", attack))
    with pytest.raises(KernelError, match="plain parameters only"):
        kernel.compile()
    kernel.pieces = (KernelStatement("math", "import math", ast.parse("import os").body[0]),)
    with pytest.raises(KernelError, match="expected only imports, numbers and functions"):
        kernel.compile()


@pytest.mark.parametrize("name", ["__builtins__", "__name__", "__import__"])
def test_names_that_python_gives_a_meaning_are_refused(name) -> None:
    for text in (TEXT.replace("K", name), TEXT.replace("g(", f"{name}("), TEXT.replace("(a, b)", f"({name}, b)")):
        with pytest.raises(KernelError, match=f"cannot use {name}"):
            restore(text, "stored.py").compile()


def test_a_declaration_without_a_value_is_refused() -> None:
    with pytest.raises(KernelError, match="a declaration without a value"):
        restore(TEXT.replace("    return g(a)", "    K: float\n    return K + g(a)"), "stored.py")


def test_a_power_that_compiled_code_raises_for_is_an_error_of_the_kernel() -> None:
    kernel = restore(TEXT.replace("g(a)", "a ** (9**9**9**9)"), "stored.py")
    with pytest.raises(KernelError, match=r"f: integer power out of range \(OverflowError\)"):
        kernel([1.0, 2.0], 0.0)


def test_only_numbers_and_imports_are_accepted() -> None:
    text = TEXT.replace("K = 2.0", "K = -float('inf')").replace(
        "import math\n", "from math import pi as p, e\nimport math\n"
    )
    with pytest.raises(KernelError, match="expected only imports, numbers"):  # two in one statement: never written
        restore(text, "stored.py")
    kernel = restore(text.replace(" as p, e", " as p").replace("g(a)", "g(a) * p"), "stored.py")
    assert kernel(1.0, 0.0) == -math.inf
