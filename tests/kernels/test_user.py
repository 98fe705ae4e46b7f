"""User kernels: language, source, and results on CPU and GPU."""

from __future__ import annotations

import copy
import linecache
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpupipe_kernels.proof import device_compilers, machine_code
from gpupipe_kernels.user.file import declared
from gpupipe_kernels.user.kernel import (
    KernelError,
    UserKernel,
    kernel,
    load,
    restore,
)
from gpupipe_kernels.user.language import MATH
from tests.examples import examples

ROOT = Path(__file__).parents[2]
RATE = 0.25
STEPS = 3


def grown(x):
    for _ in range(STEPS):
        x = x + x * RATE
    return x


def loyalty(tenure, charges):
    return tenure / (1.0 + charges * charges)


def banded(x, low, high):
    """Helpers, numbers, branches, a loop that breaks."""
    if x < low:
        return grown(low)
    n = 0
    while x > high:
        x = x / 2.0
        n += 1
        if n >= 20:
            break
    return grown(x) - n


def halves(a):
    return int(abs(a)) // 2


def is_above(a, b):
    return not a <= b and b != 7


def plain(function: Callable, inputs: list[np.ndarray]) -> np.ndarray:
    """Return Python's result for each row, with the null policy of `kernel`."""
    rows = zip(*(column.astype(np.float64).tolist() for column in inputs), strict=True)
    return np.array([function(*row) for row in rows], np.float64)


def columns(n: int) -> st.SearchStrategy[list[np.ndarray]]:
    values = st.one_of(
        st.floats(-1e6, 1e6, width=32, allow_subnormal=False), st.sampled_from([0.0, -0.0, 7.0, float("nan")])
    )
    return st.integers(0, 30).flatmap(
        lambda rows: st.lists(arrays(np.float32, rows, elements=values), min_size=n, max_size=n)
    )


@pytest.mark.parametrize(
    ("function", "n", "out"),
    [(loyalty, 2, "float32"), (banded, 3, "float32"), (halves, 1, "int32"), (is_above, 2, "bool")],
)
def test_results_equal_python_and_null_gives_null(function, n, out) -> None:
    made = kernel(out=out)(function)

    @given(columns(n))
    @examples(60)
    def holds(inputs):
        null = np.isnan(inputs).any(axis=0)
        expected = np.full(null.shape, np.nan)
        expected[~null] = plain(function, [column[~null] for column in inputs])
        np.testing.assert_allclose(made(*inputs), expected.astype(np.float32), rtol=2e-7, atol=0)

    holds()


def counted(a, b):
    if math.isnan(a):
        return -1.0 if math.isnan(b) else b
    return a


@given(columns(2))
@examples(60)
def test_a_kernel_that_passes_nulls_sees_them(inputs) -> None:
    np.testing.assert_array_equal(kernel(nulls="pass")(counted)(*inputs), plain(counted, inputs).astype(np.float32))


def spin(a):
    while a != 0.0:
        a = 0.0 if a == a else a
    return 1.0


def test_the_function_is_not_called_for_null() -> None:
    assert np.isnan(kernel(spin)(np.float32(np.nan)))  # the call would never end


def quotient(a, b):
    return a / b


def square_root(a):
    return math.sqrt(a)


def whole_quotient(a, b):
    return int(a) // int(b)


def test_where_python_raises_results_are_those_of_ieee() -> None:
    ratios = kernel(quotient)([1, -1, 0, 1e-40], [0, 0, 0, np.inf])
    np.testing.assert_array_equal(ratios, [np.inf, -np.inf, np.nan, 0])
    np.testing.assert_array_equal(kernel(square_root)([4, -4, np.inf]), [2, np.nan, np.inf])
    assert kernel(out="int32")(whole_quotient)(7, 0) == 0


def big(a):
    return int(a) * 2 - 1


def test_whole_numbers_are_exact_as_far_as_the_matrix_is() -> None:
    made = kernel(out="int32")(big)
    values = np.array([2**23, 2**23 - 1, -(2**23) + 1, 3], np.float32)
    assert made(values).tolist() == [2**24 - 1, 2**24 - 3, -(2**24) + 1, 5]


def test_arrays_of_other_dtypes_and_numbers_are_taken() -> None:
    made = kernel(loyalty)
    assert made(6, 1) == 3.0 and made(6, 1).dtype == np.float32
    assert made(np.array([6, 8]), np.array([1.0, np.nan])).tolist()[0] == 3.0
    out = np.empty(2, np.float32)
    assert made(np.array([6, 8], np.float32), np.array([1, 1], np.float32), out=out) is out
    assert out.tolist() == [3.0, 4.0]
    with pytest.raises(TypeError, match="got 1"):
        made(1.0)


# ------------------------------------------------------------------------------------------------------ what it may say


def refusal(tmp_path: Path, body: str, head: str = "import math") -> KernelError:
    """Return the error of a file whose kernel `f` begins on line 6, by `declared` if it detects it."""
    path = tmp_path / "mine.py"
    path.write_text(f"{head}\nimport gpupipe as gp\nX = [1]\n\n@gp.kernel\n{dedent(body)}")
    with pytest.raises(KernelError) as caught:
        declared(path, "f")
        load(path, "f").compile()
    return caught.value


@pytest.mark.parametrize(
    ("body", "words", "line"),
    [
        ("def f(a):\n  return a +\n", "not valid Python", 7),
        ("def f(a):\n  raise ValueError('no')\n", "cannot use raise", 7),
        ("def f(a):\n  assert a > 0\n  return a\n", "cannot use assert", 7),
        ("def f(a):\n  b = a\n  return [b]\n", "cannot use a list", 8),
        ("def f(a):\n  return 'x'\n", "cannot use 'x'", 7),
        ("def f(a):\n  return f'{a}'\n", "cannot use text", 7),
        ("def f(a):\n  return sum(x for x in (a, a))\n", "cannot use a generator", 7),
        ("def f(a):\n  return a if a is None else 1\n", "cannot use is", 7),  # prose: allow is no (Python)
        ("def f(a):\n  try:\n    return 1\n  finally:\n    pass\n", "cannot use try", 7),
        ("def f(a):\n  import os\n  return a\n", "cannot use import", 7),
        ("def f(a):\n  g = lambda x: x\n  return g(a)\n", "cannot use a lambda", 7),
        ("def f(a):\n  def g(x):\n    return x\n  return g(a)\n", "cannot use a nested function", 7),
        ("def f(a):\n  print(a)\n  return a\n", "a statement without effect", 7),
        ("def f(a):\n  return print(a)\n", "print is not defined", 7),
        ("def f(a):\n  return b + a\n", "b is not defined", 7),
        ("def f(a):\n  return X[0]\n", "cannot use […]", 7),
        ("def f(a):\n  return X\n", "cannot use X, which is of type list", 7),
        ("def f(a):\n  return math.factorial(a)\n", "math.factorial is not supported", 7),
        ("def f(a):\n  return a.real\n", "a.real is not supported", 7),
        ("def f(a):\n  for i in X:\n    a += i\n  return a\n", "expected range in a for loop", 7),
        ("def f(a):\n  for i in range(0, 9, int(a)):\n    a += i\n  return a\n", "as the step of range", 7),
        ("def f(a):\n  return a, a\n", "expected one value after return", 7),
        ("def f(a):\n  if a > 0:\n    return a\n", "does not return on every path", 8),
        ("def f(a):\n  return\n", "expected a value after return", 7),
        ("def f(a):\n  if a > 0:\n    b = 1\n  return b\n", "b may be unassigned here", 9),
        ("def f(a):\n  for i in range(3):\n    b = i\n  return b\n", "b may be unassigned here", 9),
        ("def f(a):\n  b += a\n  return b\n", "b may be unassigned here", 7),
        ("def f(a, b=1):\n  return a\n", "expected plain parameters only", 6),
        ("def f(*a):\n  return 1\n", "expected plain parameters only", 6),
        ("def f():\n  return 1\n", "expected 1 to 8 inputs, found 0", 6),
        ("def f(a, b, c, d, e, g, h, i, j):\n  return 1\n", "expected 1 to 8 inputs, found 9", 6),
        ("def f(a):\n  return f(a)\n", "recursion is not supported", 7),
        ("def f(a):\n  return math.atan2(a)\n", "cannot compute atan2(float32)", 7),
        ("def f(a):\n  b = a\n  return b << 2\n", "cannot compute lshift(float32", 8),
        ("def f(a):\n  return min(a, max)\n", "f: ", 7),
        ("def f(a):\n  math.pi = a\n  return a\n", "expected a name", 7),
        ("def f(a):\n  global X\n  return a\n", "cannot use global", 7),
    ],
)
def test_invalid_kernels_are_rejected_with_file_and_line(tmp_path, body, words, line) -> None:
    error = refusal(tmp_path, body)
    assert words in error.what
    assert error.where == f"{tmp_path / 'mine.py'}:{line}"


@pytest.mark.parametrize(
    ("out", "body", "returned"),
    [
        ("int32", "a / 2", "float64"),
        ("int32", "a", "float32"),
        ("bool", "a", "float32"),
        ("int32", "math.nan", "float"),
    ],
)
def test_the_return_type_must_match_the_output_type(tmp_path, out, body, returned) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"import math\nimport gpupipe as gp\n@gp.kernel(out='{out}')\ndef f(a):\n    return {body}\n")
    with pytest.raises(KernelError, match=f"expected a result of type {out}, found {returned}") as caught:
        load(path, "f").compile()
    assert caught.value.where == f"{path}:4"
    assert "out='float32'" in caught.value.fix


def test_an_error_in_a_helper_has_the_line_of_the_helper(tmp_path) -> None:
    error = refusal(tmp_path, "def f(a):\n  return g(a)\n\ndef g(x):\n  return x.y\n")
    assert "x.y is not supported" in error.what and error.where.endswith(":10")
    error = refusal(tmp_path, "def f(a):\n  return g(a, a)\n\ndef g(x):\n  return x\n")
    assert "g expects 1 arguments, got 2" in error.what and error.where.endswith(":7")
    error = refusal(tmp_path, "def f(a):\n  return g(a)\n\ndef g(x):\n  return x << 1\n")
    assert "cannot compute lshift(float32" in error.what and error.where.endswith(":10")


def test_a_failing_file_is_reported_with_its_line(tmp_path) -> None:
    error = refusal(tmp_path, "def f(a):\n  return a\n\nraise RuntimeError('stop')\n")
    assert error.what == "executing the file failed: RuntimeError: stop" and error.where.endswith("mine.py:9")
    error = refusal(tmp_path, "def f(a):\n  return a\n", head="import no_such_module")
    assert "no_such_module" in error.what and error.where.endswith("mine.py:1")


def test_a_file_path_is_relative_to_the_working_directory_and_no_byte_code_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("mine.py")
    for factor in (1.0, 2.0, 3.0):  # faster than the clock of byte code
        path.write_text(f"import gpupipe as gp\nK = {factor}\n@gp.kernel\ndef f(a):\n    return a * K\n")
        assert load(path, "f")(1.0) == factor
    path.write_text("import gpupipe as gp\n\n@gp.kernel\ndef f(a):\n    return a\n\n1 / 0\n")
    with pytest.raises(KernelError) as caught:
        load(path, "f")
    assert caught.value.where == f"{tmp_path / 'mine.py'}:7" and [p.name for p in tmp_path.iterdir()] == ["mine.py"]


def test_a_name_that_is_not_a_kernel_is_rejected(tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import gpupipe as gp\ndef g(a):\n  return a\n@gp.kernel\ndef f(a):\n  return a\nh = gp.kernel(g)\ni = 3\n"
    )
    assert declared(path, "f") == ("a",) and declared(path, "h") is None
    assert load(path, "h").name == "g"
    with pytest.raises(KernelError, match="g is a function, not a kernel"):
        declared(path, "g")
    with pytest.raises(KernelError, match=r"no kernel q.*\n.*kernels in the file: f"):
        declared(path, "q")
    with pytest.raises(KernelError, match="found i of type int"):
        load(path, "i")
    with pytest.raises(KernelError, match=r"cannot read .*gone\.py: No such file"):
        declared(tmp_path / "gone.py", "f")


def test_options_are_checked() -> None:
    with pytest.raises(KernelError, match="expected out to be one of float32, int32, bool"):
        kernel(out="float16")  # type: ignore[call-overload]
    with pytest.raises(KernelError, match="expected nulls to be one of propagate, pass"):
        kernel(nulls="drop")  # type: ignore[call-overload]


def test_every_function_of_math_that_it_may_use_is_compiled_on_both_processors() -> None:
    two = {"atan2", "copysign", "hypot", "nextafter", "pow"}
    constants = {name for name in MATH if isinstance(getattr(math, name), float)}
    terms = [f"math.{name}(a, b)" if name in two else f"math.{name}(a)" for name in sorted(MATH - constants)]
    terms = [t for t in terms if "frexp" not in t and "ldexp" not in t] + [f"math.{name}" for name in constants]
    text = (
        'from __future__ import annotations\n\nimport math\nimport gpupipe\n\n\n@gpupipe.kernel(out="float32", '
        'nulls="pass")\ndef every(a, b):\n    m, e = math.frexp(a)\n'
        f"    return math.ldexp(m, e) + {' + '.join(terms)}\n"
    )
    every = restore(text, "every.py")
    assert np.isnan(every(0.5, 2.0))  # math.nan is among them
    if not device_compilers.missing_compiler():
        loop = every.compiled.loop
        assert machine_code.inspect({"every": loop}, ["sm_90"])[loop.name]["sm_90"].registers


# ------------------------------------------------------------------------------------------------------------- its text


def test_the_source_is_self_contained(tmp_path) -> None:
    made = kernel(out="float32", nulls="pass")(banded)
    assert "RATE = 0.25" in made.source and "def grown(x):" in made.source and "loyalty" not in made.source
    assert '@gpupipe.kernel(out="float32", nulls="pass")\ndef banded(x, low, high):' in made.source
    (tmp_path / "kernel.py").write_text(made.source)
    code = (
        "import sys; from pathlib import Path; from gpupipe_kernels.user.kernel import load, restore\n"
        "path = Path('kernel.py'); one, two = load(path, 'banded'), restore(path.read_text(), 'x.py')\n"
        "assert one.source == two.source == path.read_text() and one.sha256 == sys.argv[1] and one == two\n"
        "print(one([-3, 5, 1e9], 0, 100).tolist(), two([-3, 5, 1e9], 0, 100).tolist())"
    )
    done = python(code, made.sha256, cwd=tmp_path)
    expected = made([-3, 5, 1e9], 0, 100).tolist()
    assert done.stdout.strip() == f"{expected} {expected}", done.stderr


def python(code: str, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a separate process."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=cwd, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def cell(text: str, around: dict[str, Any]) -> dict[str, Any]:
    """Run source like a notebook cell, where `inspect` can find it."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), around)
    return around


def test_a_kernel_in_a_notebook_uses_names_of_other_cells() -> None:
    around = cell("import math as m\nfrom math import exp, pi\nimport numpy as np\nfrom numpy import float32\n", {})
    cell("LOW, HIGH, ON = -1e300, float('inf'), True\ndef bent(x):\n    return max(LOW, min(x, HIGH))\n", around)
    cell(
        "from gpupipe_kernels.user.kernel import kernel\n@kernel\ndef inner(x):\n    return bent(x) + pi\n\n"
        "@kernel(nulls='pass')\ndef f(a: 'a', b) -> float:\n    if ON and m.isnan(a): return np.float32(0)\n"
        "    return float32(exp(-b)) + inner(a) * m.e\n",
        around,
    )
    f = around["f"]
    assert isinstance(f, UserKernel)
    for line in ("import math as m", "from math import exp", "import numpy as np", "from numpy import float32",
                 'HIGH = float("inf")', "LOW = -1e+300", "ON = True", f"pi = {math.pi}"):  # fmt: skip
        assert line in f.source.splitlines()
    assert f(2.0, 0.0) == pytest.approx(1 + (2 + math.pi) * math.e) and f(np.nan, 1) == 0
    assert restore(f.source, "f.py")(2.0, 0.0) == f(2.0, 0.0)


def test_numbers_keep_the_value_that_they_have_when_the_kernel_is_first_used() -> None:
    around = cell("from gpupipe_kernels.user.kernel import kernel\nK = 2.0\n@kernel\ndef f(a):\n    return a * K\n", {})
    assert around["f"](1.0) == 2.0
    around["K"] = 5.0
    assert around["f"](1.0) == 2.0 and "K = 2.0" in around["f"].source
    assert cell("@kernel\ndef f(a):\n    return a * K\n", around)["f"](1.0) == 5.0


def test_a_kernel_inside_a_function_uses_its_enclosing_names() -> None:
    factor = 3.0

    @kernel
    def tripled(a):
        return a * factor

    assert tripled(2.0) == 6.0 and "factor = 3.0" in tripled.source


def test_two_things_of_one_name_are_refused() -> None:
    one = cell("from gpupipe_kernels.user.kernel import kernel\nK = 1.0\ndef g(a):\n    return a * K\n", {})
    two = cell("K = 2.0\n@kernel\ndef f(a):\n    return g(a) * K\n", {"kernel": kernel, "g": one["g"]})
    with pytest.raises(KernelError, match="K refers to two different objects"):
        _ = two["f"].source
    other = cell("h = g\n@kernel\ndef f(a):\n    return h(a)\n", dict(one))
    with pytest.raises(KernelError, match="h is an alias of g"):
        _ = other["f"].source


def test_functions_that_call_each_other_are_refused() -> None:
    around = cell("def g(a):\n    return h(a)\ndef h(a):\n    return g(a)\n", {})
    around["kernel"] = kernel
    cell("@kernel\ndef f(a):\n    return g(a)\n", around)
    with pytest.raises(KernelError, match="g: recursion is not supported"):
        _ = around["f"].source


def test_a_function_without_a_text_is_refused() -> None:
    around: dict[str, Any] = {}
    exec("def f(a):\n    return a\n", around)
    with pytest.raises(KernelError, match="f: source code not found"):
        kernel(around["f"])
    with pytest.raises(KernelError, match="expected a function defined with def"):
        kernel(lambda a: a)


def test_kernels_of_one_text_are_equal_and_survive_pickle_and_copies() -> None:
    one, two, other = kernel(loyalty), kernel(loyalty), kernel(nulls="pass")(loyalty)
    assert one == two and hash(one) == hash(two) and one != other and one != "loyalty"
    back = pickle.loads(pickle.dumps(one))
    assert back == one and back(6, 1) == 3.0 and back.compiled is one.compiled
    assert copy.deepcopy(one) is one
    assert repr(one) == "kernel loyalty(tenure, charges) -> float32, nulls propagate"


HEAD = "from __future__ import annotations\n\nimport gpupipe\n"
TAIL = '\n\n@gpupipe.kernel(out="float32", nulls="propagate")\ndef f(a):\n    return a\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        HEAD + TAIL + "print('after')\n",
        HEAD + "import os\n" + TAIL,
        HEAD + "from os import system\n" + TAIL,
        HEAD + "from math import factorial\n" + TAIL,
        HEAD + "K = open('x')\n" + TAIL,
        HEAD + "K = float(input())\n" + TAIL,
        HEAD + "K: print('x') = 3\n" + TAIL,
        HEAD + "def g(a=print('x')):\n    return a\n" + TAIL,
        HEAD + "@print\ndef g(a):\n    return a\n" + TAIL,
        HEAD + "class A:\n    pass\n" + TAIL,
        HEAD + "if True:\n    pass\n" + TAIL,
        HEAD + TAIL.replace('out="float32"', "out=print('x')"),
        HEAD + TAIL.replace('out="float32"', 'out="float16"'),
        HEAD + TAIL.replace("gpupipe.kernel", "gpupipe.run"),
        HEAD + TAIL.replace("return a", "return open('x')"),
        HEAD + TAIL.replace("return a", "return a.__class__"),
        HEAD + TAIL.replace("(a)", "(a=print('x'))"),
        HEAD + TAIL.replace("(a)", "()"),
        HEAD + TAIL.replace("return a", "return a +"),
        HEAD + TAIL.replace("return a", "return a" + " + a" * 2000),
        HEAD + TAIL.replace("return a", "return " + "(" * 500 + "a" + ")" * 500),
    ],
)  # fmt: skip
def test_a_text_with_anything_else_in_it_is_refused_and_never_run(text, capsys) -> None:
    with pytest.raises(KernelError):
        restore(text, "stored.py").compile()
    assert capsys.readouterr().out == ""


def test_the_plain_text_of_those_is_taken() -> None:
    assert restore(HEAD + TAIL, "stored.py")(2.0) == 2.0


# ------------------------------------------------------------------------------------------------------ both processors


def test_nothing_is_compiled_before_it_is_computed() -> None:
    done = python("import sys, gpupipe as gp, gpupipe_kernels.user\ngp.kernel\nassert 'numba' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_a_second_process_finds_the_code_on_disk(tmp_path) -> None:
    (tmp_path / "mine.py").write_text("import gpupipe as gp\n@gp.kernel\ndef f(a, b):\n    return a / b + 1.0\n")
    load = "from pathlib import Path; from gpupipe_kernels.user.kernel import load; f = load(Path('mine.py'), 'f')"
    code = f"{load}; print(f(3, 2))"
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DEBUG_CACHE": "1"}
    first = python(code, cwd=tmp_path, **settings)
    assert "data saved to" in first.stdout and "2.5" in first.stdout, first.stderr
    (tmp_path / "mine.py").rename(tmp_path / "moved.py")  # it is the text that counts, not the file
    second = python(code.replace("mine", "moved"), cwd=tmp_path, **settings)
    assert "data loaded from" in second.stdout and "2.5" in second.stdout and "saved" not in second.stdout
    (tmp_path / "moved.py").write_text((tmp_path / "moved.py").read_text().replace("1.0", "2.0"))
    changed = python(code.replace("mine", "moved"), cwd=tmp_path, **settings)
    assert "data saved to" in changed.stdout and "3.5" in changed.stdout


@pytest.fixture
def wide(tmp_path) -> Path:
    """Return a file of kernels with 1 to 8 inputs; `k2_pass` passes nulls."""
    texts = ["import gpupipe as gp"]
    for n, nulls in [*((n, "propagate") for n in range(1, 9)), (2, "pass")]:
        names = "abcdefgh"[:n]
        head = f"@gp.kernel(nulls={nulls!r})\ndef k{n}_{nulls}({', '.join(names)}):"
        texts.append(f"{head}\n    return {' - '.join(names)} * 0.5")
    path = tmp_path / "wide.py"
    path.write_text("\n\n\n".join(texts) + "\n")
    return path


SIMULATED = """
import sys
from pathlib import Path
import numpy as np
from numba import cuda
from gpupipe_kernels.user.kernel import load

rng = np.random.default_rng(0)
for n, nulls in [*((n, "propagate") for n in range(1, 9)), (2, "pass")]:
    kernel = load(Path(sys.argv[1]), f"k{n}_{nulls}")
    for rows in (0, 1, 31, 32, 33, 100):
        inputs = [rng.choice(np.float32([1, -2, 0.5, np.nan, np.inf, -0.0]), rows) for _ in range(n)]
        out = cuda.to_device(np.zeros(rows, np.float32))
        kernel.compiled.loop.launch(rows, *map(cuda.to_device, inputs), out, threads=32)
        with np.errstate(invalid="ignore"):
            expected = inputs[0].astype(float)
            for column in inputs[1:-1]:
                expected = expected - column
            expected = expected - inputs[-1] * 0.5 if n > 1 else expected * 0.5
        np.testing.assert_array_equal(out.copy_to_host(), expected.astype(np.float32))
        np.testing.assert_array_equal(kernel(*inputs), expected.astype(np.float32))
assert kernel(*map(cuda.to_device, inputs), out=out) is out
try:
    kernel(*map(cuda.to_device, inputs))
except TypeError as error:
    print(error)
"""


def test_the_device_loop_in_the_simulator_equals_the_host(wide) -> None:
    done = python(SIMULATED, str(wide), NUMBA_ENABLE_CUDASIM="1")
    assert "require out=" in done.stdout, done.stderr


def test_every_device_loop_becomes_machine_code_without_spills(wide) -> None:
    if reason := device_compilers.missing_compiler():
        pytest.skip(reason)
    kernels = [load(wide, f"k{n}_propagate") for n in (1, 2, 8)]
    kernels += [kernel(banded), kernel(out="int32")(halves), kernel(out="bool")(is_above)]
    table = machine_code.inspect({made.name: made.compiled.loop for made in kernels}, ["sm_75", "sm_90"])
    for name, row in table.items():
        assert all(code.spill_stores == code.stack == 0 for code in row.values()), name
    assert table[kernels[-1].compiled.loop.name]["sm_90"].f64 == 0  # nothing of it needs float64
