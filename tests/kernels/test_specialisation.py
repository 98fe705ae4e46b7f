"""Sources of kernels specialised to a program; `device_checks` checks their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.device.twenty_columns import twenty_columns
from gpupipe_kernels import code_cache
from gpupipe_kernels.interpreters.cuda import specialisation
from gpupipe_kernels.interpreters.cuda.opcodes import DeviceOpcode, device_op
from gpupipe_kernels.interpreters.cuda.program import DeviceProgram
from gpupipe_kernels.interpreters.cuda.specialisation import compile_source, is_worth_it
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import (
    CODE_BLOCKS,
    NUMBER_BLOCKS,
    READS_CODES,
    READS_NUMBERS,
    READS_TIMES,
    TIME_BLOCK,
    Program,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of compiled code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compile_source.cache_clear()
    return code_cache.cache_folder()


def test_every_instruction_has_an_opcode_and_a_statement() -> None:
    reads = dict.fromkeys(READS_CODES, CODE_BLOCKS) | dict.fromkeys(READS_NUMBERS, NUMBER_BLOCKS)
    reads |= {op: frozenset({TIME_BLOCK}) for op in READS_TIMES} | {Opcode.IS_NULL: NUMBER_BLOCKS | {TIME_BLOCK}}
    assert {device_op(op, block) for op in Opcode for block in reads.get(op, {-1})} == set(DeviceOpcode)
    stated = specialisation._ACCUMULATORS.keys() | specialisation._INDICES.keys()
    assert set(DeviceOpcode) - stated == {DeviceOpcode.STORE, DeviceOpcode.CALL}


def test_the_source_depends_on_the_structure_and_on_nothing_that_a_fit_learns() -> None:
    program = twenty_columns()
    refitted = Program(program.instructions, program.params + 1.5, program.luts * 2, 20)
    other = Program(program.instructions[::1].copy(), program.params, program.luts, 20)
    other.instructions[0, 3] = 1  # the same number from another column
    keys = [DeviceProgram(one).source("columns").key for one in (program, refitted, other)]
    assert keys[0] == keys[1] != keys[2]


class _UserKernel:
    formula, n_inputs = None, 1


def test_code_is_cached_under_the_source_unless_it_contains_users_kernels() -> None:
    source = DeviceProgram(twenty_columns()).source("rows")
    assert compile_source(source, ()).key == source.key
    users: Any = (_UserKernel(),)
    assert compile_source(source, users).key is None


def test_a_kernel_pays_off_once_it_saves_its_compilation_time(folder: Path) -> None:
    source = DeviceProgram(twenty_columns()).source("columns")
    n_cells = np.array([0.9, 1.1]) / specialisation.SAVED_SECONDS_A_CELL["columns"]
    compiling = specialisation.COMPILE_SECONDS + 50 * specialisation.COMPILE_SECONDS_AN_INSTRUCTION
    assert [is_worth_it(source, 50, int(n * compiling)) for n in n_cells] == [False, True]
    assert not is_worth_it(source, specialisation.MOST_INSTRUCTIONS + 1, int(1e9 * n_cells[1]))
    folder.mkdir(parents=True)
    code_cache.mark_kept(source.key)
    assert [is_worth_it(source, 50, int(n * specialisation.LOAD_SECONDS)) for n in n_cells] == [False, True]
