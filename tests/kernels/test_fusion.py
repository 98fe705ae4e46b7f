"""Roundings of specialised kernels: no product is fused with an addition of another instruction."""

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
import json, re, sys
from gpupipe_kernels.interpreters.cuda.program import DeviceProgram
from gpupipe_kernels.interpreters.cuda.specialisation import compile_source
from gpupipe_kernels.proof.device_compilers import ptx_of
from tests.kernels.rounding import products, two_products
from tools.machine_code.instruction_counts import disassemble

def loop(program):
    return compile_source(DeviceProgram(program).source("columns"), program.calls)

found = {"ptx": len(re.findall(r"add[.]rn[.]f32", ptx_of(loop(products()), ("sm_90",))["sm_90"]))}
for architecture, (code, _) in disassemble(loop(two_products()), ("sm_75", "sm_90")).items():
    names = [one.name for one in code.instructions]
    found[architecture] = [names.count("FFMA"), names.count("FMUL")]
print(json.dumps(found))
"""


@pytest.mark.skipif(missing_compiler() != "" or find_nvdisasm() is None, reason="needs NVIDIA's compilers")
def test_the_result_of_each_instruction_is_rounded() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("ptx") == 7 * 8  # seven instructions whose result may be a product, for eight rows
    assert list(found.values()) == [[0, 16], [0, 16]]  # FFMA and FMUL: CALL and MULTIPLY, and two differences


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
