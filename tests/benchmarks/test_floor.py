"""The lower bound set by memory bandwidth: the bytes a program must move, and the measurement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.floor import Traffic, bandwidth_operations, fit_with, interleaved, main, traffic
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.bench.clock import StageClock
from gpupipe.bench.stages import read_and_split
from gpupipe.config import load_config
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.reduce.numpy import engine as numpy_engine
from tests.kernels.programs import F64, I8, I64, Writer

CONFIG = Path(__file__).parents[2] / "configs" / "bench_churn.yaml"


def test_a_source_column_is_read_once_and_a_cell_written_once() -> None:
    writer = Writer()
    for dst in range(3):
        writer.put(Opcode.EQUAL, dst, (I8, 0), arg=dst)
    writer.put(Opcode.LOAD, 3, (F64, 1), params=(0.0,))
    writer.put(Opcode.SCALE, 3, params=(1.0, 0.0))
    writer.put(Opcode.BETWEEN, 4, (I64, 0), arg=1, params=(1.0,))
    assert traffic(writer.program()) == Traffic(read=1 + 8 + 8 + 8, written=4 * 5)


def test_the_floor_is_the_time_to_move_the_bytes() -> None:
    assert Traffic(read=10, written=20).floor(1000, read=1e-9, fill=2e-9) == pytest.approx(50e-6)


def test_the_works_of_the_bandwidth_touch_every_cell() -> None:
    cells = np.ones(300_000, np.float32)
    operations = bandwidth_operations(cells, n_threads=2)
    operations["fill"]()
    assert not cells.any()
    assert {name: len(seconds) for name, seconds in interleaved(operations, rounds=3).items()} == {"read": 3, "fill": 3}


ENGINES = {"numpy": numpy_engine, "numba": numba_engine}


@pytest.mark.parametrize(("engine", "other"), [("numpy", "numba"), ("numba", "numpy")])
def test_a_fit_runs_only_on_the_engine_of_its_row(
    binary: Path, monkeypatch: pytest.MonkeyPatch, engine: str, other: str
) -> None:
    made = "features: [{clip: {columns: b, lower: 0}}, {log1p: b}, "  # a feature computed before it is scaled
    binary.write_text(binary.read_text().replace("features: [", made))
    split = read_and_split(load_config(binary), StageClock())
    for name in ("sweep", "count", "fold", "tally"):
        monkeypatch.setattr(ENGINES[other], name, lambda *_, name=name: pytest.fail(f"{other}: {name}"))
    statistics = split.rows.statistics
    assert statistics is not None
    fitted = fit_with(engine, CpuBackend(), split, statistics.table)
    assert fitted.names == ["b", "a", "c=w", "c=x", "c=y", "c=z"]


def test_it_prints_every_work_as_a_multiple_of_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(CONFIG), "--rows", "3000"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("2,400 rows, 57 columns, ")
    assert "65 bytes a row to read" in head and "228 to write" in head
    assert [line.split("  ")[1] for line in lines] == ["transform", "fit, NumPy", "fit, Numba"]
    assert all(float(line.split(" x floor")[0].split()[-1]) > 0 for line in lines)
