"""Roundings of users' kernels: no product is fused with an addition of another instruction."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from gpupipe_kernels.launch import formula
from gpupipe_kernels.proof.device_compilers import missing_compiler
from gpupipe_kernels.user.compilation import compiled
from gpupipe_kernels.user.kernel import kernel
from tools.machine_code.instruction_counts import find_nvdisasm

COUNTED = """
import json
from gpupipe_kernels.interpreters.cuda.loops import LOOPS, interpreters_for
from tests.kernels.rounding import product
from tools.machine_code.instruction_counts import disassemble

def operations(loops):
    codes = disassemble(loops["columns", True], ("sm_75", "sm_90")).values()
    names = [[one.name for one in code.instructions] for code, _ in codes]
    return [[of.count(name) for name in ("FFMA", "FMUL", "FADD")] for of in names]

print(json.dumps([operations(LOOPS), operations(interpreters_for((product,)))]))
"""


@pytest.mark.nightly
@pytest.mark.skipif(missing_compiler() != "" or find_nvdisasm() is None, reason="needs NVIDIA's compilers")
def test_a_product_of_a_users_kernel_is_not_fused_with_an_addition_of_the_interpreter() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    without, with_product = json.loads(done.stdout)
    for before, after in zip(without, with_product, strict=True):
        assert [after[i] - before[i] for i in range(3)] == [0, 8, 0]  # x * y of eight rows; x * y + x is [8, 0, 0]


def test_code_for_the_host_fuses_nothing() -> None:
    @kernel(nulls="pass")
    def fused(x, y, z):
        return x * y + z

    code = formula(compiled(fused).guard)
    code.compile("float32(float32, float32, float32)")
    text = "".join(code.inspect_llvm().values())
    operations = re.findall(r"= (f(?:mul|add)) (\w+)", text)
    assert {"fmul", "fadd"} == {name for name, _ in operations}
    assert {kind for _, kind in operations} == {"float"}  # "contract" or "fast" in its place would permit fusion
