"""Caching of compiled code, separately for each version of the sources and each machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpupipe_kernels import code_cache
from gpupipe_kernels.launch import DeviceLoop, blocks, host_block, is_on_device
from gpupipe_kernels.proof.device_compilers import missing_compiler
from gpupipe_kernels.threads import run_blocks


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Replace the package's sources by a folder."""
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(code_cache, "SOURCES", tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for cached in (code_cache.fingerprint, code_cache._machine):
        cached.cache_clear()
    yield tmp_path
    for cached in (code_cache.fingerprint, code_cache._machine):
        cached.cache_clear()


def changed() -> tuple[str, str]:
    code_cache.fingerprint.cache_clear()
    code_cache._machine.cache_clear()
    return code_cache.fingerprint(), code_cache._machine()


def test_the_folder_is_numbas_or_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert code_cache.cache_folder() == tmp_path / "kernels" / code_cache.fingerprint()
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert code_cache.cache_folder() == tmp_path / "xdg" / "gpupipe" / "kernels" / code_cache.fingerprint()


def test_other_sources_have_another_folder(sources: Path) -> None:
    before = changed()
    (sources / "a.py").write_text("x = 2")
    assert changed()[0] != before[0]


def test_cached_code_is_found_by_other_processes_of_the_same_machine_only(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_cache.can_keep()
    assert not code_cache.is_kept("loop")
    code_cache.mark_kept("loop")
    assert code_cache.is_kept("loop")
    assert not code_cache.is_kept("another")
    cpuinfo = sources / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: sse2 avx512f\nbogomips\t: 1\n\nprocessor\t: 1\n")
    monkeypatch.setattr(code_cache, "CPUINFO", cpuinfo)
    changed()
    assert not code_cache.is_kept("loop")


def test_a_rewritten_file_counts_as_not_compiled(sources: Path) -> None:
    changed()
    assert code_cache.can_keep()
    code_cache.mark_kept("loop")
    os.utime(sources / "a.py", (1, 1))
    changed()
    assert not code_cache.is_kept("loop")  # Numba looks at the time of the file too


def test_a_read_only_folder_is_not_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert not code_cache.can_keep()
    code_cache.mark_kept("loop")
    assert not code_cache.is_kept("loop")

    @host_block
    def loop(x, out):
        for i in range(x.size):
            out[i] = x[i] + 1

    out = np.zeros(3)
    loop(np.arange(3.0), out)
    assert out.tolist() == [1, 2, 3]


def test_a_host_block_divides_by_zero_as_numpy_does_and_runs_on_several_threads_at_once() -> None:
    @host_block
    def loop(x, out, start, stop):
        for i in range(start, stop):
            out[i] = x[i] / 0.0

    x, out = np.array([1.0, -1.0, 0.0, 2.0]), np.zeros(4)
    run_blocks(lambda start, stop: loop(x, out, start, stop), 4, 1, n_threads=4)
    np.testing.assert_array_equal(out, [np.inf, -np.inf, np.nan, np.inf])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 11, 35])
def test_blocks_cover_all_rows_once(n_rows: int, n_threads: int) -> None:
    seen = np.zeros(n_rows, int)
    lock = threading.Lock()

    def count(start: int, stop: int) -> None:
        with lock:
            seen[start:stop] += 1

    run_blocks(count, n_rows, 10, n_threads)
    assert (seen == 1).all()


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_first_failing_block_is_raised(n_threads: int) -> None:
    def fail(start: int, stop: int) -> None:
        if start >= 20:
            raise ValueError(f"row {start}")

    with pytest.raises(ValueError, match="row 20"):
        run_blocks(fail, 100, 10, n_threads)


def test_a_launch_over_nothing_needs_no_device() -> None:
    loop = DeviceLoop(lambda x: None, "float32[::1]")
    loop.launch(0)
    loop.launch((5, 0))


@pytest.mark.parametrize(("n", "expected"), [(0, 1), (1, 1), (256, 1), (257, 2), (10**9, 65_535)])
def test_a_grid_covers_the_rows_up_to_its_maximum_size(n: int, expected: int) -> None:
    assert blocks(n) == expected


def test_where_an_array_lies() -> None:
    assert is_on_device(SimpleNamespace(__cuda_array_interface__={}))
    assert not is_on_device(np.zeros(3))


def test_checking_the_cache_loads_no_compiler() -> None:
    code = "import sys; from gpupipe_kernels.code_cache import is_kept; is_kept('x'); print('numba' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


WITHOUT_ROW_STACK = """
import numpy as np
if hasattr(np, "row_stack"):
    del np.row_stack  # as of 2.5
from gpupipe_kernels.proof.device_compilers import ptx_of
from gpupipe_kernels.reduce.cuda import loops
print(len(ptx_of(loops.join)["reduce_join"]))
"""


def test_numba_cuda_compiles_with_a_numpy_that_has_no_row_stack() -> None:
    if missing := missing_compiler():
        pytest.skip(missing)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", WITHOUT_ROW_STACK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000
