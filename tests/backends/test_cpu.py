from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpupipe.backends.base import Backend, DeviceOptions
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.cpu.estimators import ESTIMATORS
from gpupipe.errors import ConfigError
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import Program, block_id


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> CpuBackend:
    monkeypatch.setenv("GPUPIPE_THREADS", "4")
    return CpuBackend("asked for")


def test_it_implements_the_backend_protocol(backend: CpuBackend) -> None:
    assert isinstance(backend, Backend)
    assert (backend.name, backend.reason, backend.n_threads) == ("cpu", "asked for", 4)
    assert backend.xp is np


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_of_the_table_can_be_constructed(backend: CpuBackend, name: str) -> None:
    if ESTIMATORS[name] == "xgboost":
        pytest.importorskip("xgboost", reason="xgboost comes with the extra 'cpu'")
    estimator = backend.estimator(name, {})
    assert type(estimator).__name__ == name
    assert hasattr(estimator, "fit")


def test_parameters_reach_the_estimator(backend: CpuBackend) -> None:
    assert backend.estimator("Ridge", {"alpha": 0.25}).alpha == 0.25


def test_an_unknown_estimator_names_the_nearest(backend: CpuBackend) -> None:
    with pytest.raises(ConfigError, match="did you mean 'LogisticRegression'"):
        backend.estimator("LogisticRegresion", {})


def test_a_missing_library_is_reported_with_its_install_command(
    backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ConfigError, match="XGBClassifier needs xgboost") as error:
        backend.estimator("XGBClassifier", {})
    assert error.value.fix == "pip install 'gpupipe[cpu]'"


def test_the_matrix_is_float32_and_column_major(backend: CpuBackend) -> None:
    matrix = backend.empty_matrix(1000, 3)
    assert (matrix.shape, matrix.dtype, matrix.flags.f_contiguous) == ((1000, 3), np.dtype("float32"), True)


def test_a_program_writes_the_matrix_and_names_the_interpreter(backend: CpuBackend) -> None:
    instructions = np.array(
        [
            [Opcode.LOAD, 0, block_id("float32"), 1, 0, 0, 0, 0],
            [Opcode.EQUAL, 1, block_id("int8"), 0, 5, 0, 0, 0],
        ],
        dtype=np.int32,
    )
    program = Program(instructions, np.array([10.0]), np.array([], np.float32), n_columns=2)
    numbers = np.array([[0, 0, 0], [11, 12, np.nan]], np.float32)
    blocks: dict[str, Any] = {"float32": numbers, "int8": np.array([[5, 3, 5]], np.int8)}
    assert backend.last_interpreter == ""
    matrix = backend.empty_matrix(3, 2)
    backend.run_program(program, blocks, matrix)
    assert backend.last_interpreter == "numpy"
    np.testing.assert_array_equal(matrix, np.array([[1, 1], [2, 0], [np.nan, 1]], np.float32))


def test_custom_kernels_are_called(backend: CpuBackend) -> None:
    call = SimpleNamespace(n_inputs=1, host=np.negative)
    instructions = [[Opcode.LOAD, 0, block_id("float32"), 0, 0, 0, 0, 0], [Opcode.CALL, 0, -1, -1, 0, 0, 0, 0]]
    program = Program(np.array(instructions, np.int32), np.zeros(1), np.empty(0, np.float32), 1, (call,))
    matrix = backend.empty_matrix(2, 1)
    backend.run_program(program, {"float32": np.array([[1, 2]], np.float32)}, matrix)
    np.testing.assert_array_equal(matrix, [[-1], [-2]])


def test_a_stage_records_the_engines_chosen_in_it(backend: CpuBackend) -> None:
    backend.open_stage()
    backend.choose_engine("keyed", 10**9)
    backend.open_stage()
    assert backend.reductions(10).__name__ == "gpupipe_kernels.reduce.numpy.engine"
    assert backend.close_stage().engines == {"reductions": "numpy"}
    assert backend.close_stage().engines == {"keyed": "numba", "reductions": "numpy"}


def test_without_a_compiler_numpy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert CpuBackend(options=DeviceOptions(engine="numba")).choose_engine("keyed", 10**9) == "numpy"


def test_to_host_does_not_copy_a_host_array(backend: CpuBackend) -> None:
    array = np.arange(3)
    assert backend.to_host(array) is array


def test_map_keeps_the_order_of_the_items(backend: CpuBackend) -> None:
    assert backend.map(lambda n: n * n, range(100)) == [n * n for n in range(100)]


@pytest.mark.parametrize("items", [[], [3]])
def test_map_takes_few_items(backend: CpuBackend, items: list[int]) -> None:
    assert backend.map(str, items) == [str(item) for item in items]


def test_map_runs_calls_concurrently(backend: CpuBackend) -> None:
    meeting = threading.Barrier(4, timeout=30)
    assert sorted(backend.map(lambda _: meeting.wait(), range(4))) == [0, 1, 2, 3]


def test_map_on_one_thread_runs_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_THREADS", "1")
    here = threading.current_thread()
    assert CpuBackend().map(lambda _: threading.current_thread() is here, range(3)) == [True] * 3


def test_nested_maps_do_not_wait_for_each_other(backend: CpuBackend) -> None:
    def outer(row: int) -> list[int]:
        return backend.map(lambda column: 10 * row + column, range(5))

    assert backend.map(outer, range(20)) == [[10 * row + column for column in range(5)] for row in range(20)]


@pytest.mark.parametrize("threads", ["1", "4"])
def test_map_raises_the_first_failure_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("GPUPIPE_THREADS", threads)

    def fail(item: int) -> Any:
        if item >= 3:
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 3"):
        CpuBackend().map(fail, range(8))


def test_memory_figures_describe_this_machine(backend: CpuBackend) -> None:
    assert 0 < backend.memory().available <= backend.memory().total
