"""The shipped machine code, its manifest, and launches of it, with a stand-in for CuPy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hatchling.builders.wheel import WheelBuilder

from gpupipe_kernels.catalog import device_loops
from gpupipe_kernels.device import binaries, functions
from gpupipe_kernels.device.arrays import DeviceCells
from gpupipe_kernels.device.compiler import PTX_HEADER
from gpupipe_kernels.device.parameters import Entry
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.reduce.cuda import loops as reductions
from tools.device_code.build import source_files

PTX_TYPES = {
    "float32": "f32", "float64": "f64", "int32": "u32", "int64": "u64", "uint64": "u64", "uint8": "u8", "bool": "u8",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the shipped code, which the package reads."""
    copy = tmp_path / "compiled"
    shutil.copytree(binaries.FOLDER, copy)
    monkeypatch.setattr(binaries, "FOLDER", copy)
    for cached in (binaries.manifest, binaries.read):
        cached.cache_clear()
    yield copy
    for cached in (binaries.manifest, binaries.read):
        cached.cache_clear()


def test_the_shipped_code_is_that_of_the_sources() -> None:
    loops = device_loops().values()
    files = source_files(loop.function.__module__ for loop in loops)
    assert binaries.manifest()["sources"]["files"] == files, f"run {binaries.BUILD}"
    assert binaries.is_current(), f"a device loop or formula was edited: run {binaries.BUILD}"
    declared = {entry.name: " ".join(entry.words) for loop in loops for entry in loop.entries.values()}
    assert binaries.manifest()["entries"] == declared


def test_the_entries_of_the_ptx_take_the_parameters_of_the_manifest() -> None:
    ptx = binaries.read(binaries.PTX).decode()
    assert ptx.startswith(PTX_HEADER)
    entries = dict(re.findall(r"\.visible \.entry (\w+)\((.*?)\)", ptx, re.DOTALL))
    found = {name: re.findall(r"\.param \.(\w+)", parameters) for name, parameters in entries.items()}
    expected = {
        name: ["u64" if word.endswith("*") else PTX_TYPES[word] for word in words.split()]
        for name, words in binaries.manifest()["entries"].items()
    }
    assert found == expected
    assert "NumbaEnv" not in ptx


@pytest.mark.parametrize(
    ("capability", "file"),
    [((7, 5), "sm_75.cubin"), ((8, 0), "sm_80.cubin"), ((8, 9), "sm_80.cubin"), ((9, 0), "sm_90.cubin"),
     ((10, 3), "sm_100.cubin"), ((11, 0), "ptx"), ((12, 1), "sm_120.cubin"), ((13, 0), "ptx")],
)  # fmt: skip
def test_machine_code_runs_on_later_chips_of_its_generation(capability: tuple[int, int], file: str) -> None:
    assert binaries.file_for(capability) == file
    magic = b".version" if file == "ptx" else b"\x7fELF"
    assert binaries.read(file).startswith(magic)


def test_a_file_that_is_missing_or_damaged_is_named(folder: Path) -> None:
    path = folder / "sm_90.cubin.xz"
    path.write_bytes((folder / "sm_80.cubin.xz").read_bytes())
    with pytest.raises(binaries.DeviceCodeError, match=r"sm_90\.cubin\.xz is missing or damaged \(expected SHA-256"):
        binaries.is_ready((9, 0))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(binaries.DeviceCodeError, match=r"damaged \(LZMAError.*To do: install gpupipe again"):
        binaries.is_ready((9, 0))
    path.unlink()
    with pytest.raises(binaries.DeviceCodeError, match=r"missing or damaged \(FileNotFoundError"):
        binaries.is_ready((9, 0))
    assert binaries.is_ready((8, 0))


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_damaged_manifest_is_named(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(binaries.DeviceCodeError, match=r"manifest\.json is missing or damaged"):
        binaries.is_ready((9, 0))


def test_edited_sources_are_compiled_or_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sources"]["sha256"] = "of an older version"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not binaries.is_ready((9, 0))
    loop, entry = reductions.join, reductions.join.entries[""]
    monkeypatch.setattr(functions, "compiler_obstacle", lambda: "numba-cuda is not installed")
    with pytest.raises(
        binaries.DeviceCodeError, match=r"reduce_join cannot run on the GPU: .* newer .* tools\.device_code"
    ):
        functions.load(loop.function, entry, loop.key, lambda function: function)


def test_a_loop_that_is_compiled_at_run_time_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "compiler_obstacle", lambda: "numba-cuda is not installed")
    with pytest.raises(binaries.DeviceCodeError, match=r"risk cannot run .*To do: pip install 'numba-cuda\[cu13\]'"):
        functions.load(lambda x: None, Entry("risk", ("float32[::1]",)), "risk", lambda function: function)


def test_what_is_compiled_at_run_time_is_cached_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiled: list[str] = []
    loaded: list[bytes] = []

    def compile_entry(function: Any, entry: Entry, inlined: Any) -> str:
        compiled.append(entry.name)
        return "body"

    def module(code: bytes) -> Any:
        loaded.append(code)
        return SimpleNamespace(get_function=lambda name: name)

    monkeypatch.setattr(functions, "compiler_obstacle", lambda: "")
    monkeypatch.setattr(functions, "compile_entry", compile_entry)
    monkeypatch.setattr(functions, "_module", module)
    for key in ("risk_1", "risk_1", None, "risk_2"):
        assert functions.load(test_what_is_compiled_at_run_time_is_cached_on_disk, Entry("risk", ()), key, id) == "risk"
    assert len(compiled) == 3
    assert set(loaded) == {f"{PTX_HEADER}body".encode()}
    assert {path.name for path in tmp_path.rglob("*.ptx")} == {"risk_1.ptx", "risk_2.ptx"}


def test_arguments_are_converted_to_the_declared_types() -> None:
    cells = [
        DeviceCells(None, 2**40 + i, np.dtype(kind), n) for i, (kind, n) in enumerate([("f4", 7), ("f4", 3), ("i8", 5)])
    ]
    packed = reductions.bin_values.entries["float32"].pack((cells[0], cells[1], -1.5, np.float64(2.5), cells[2]))
    expected = (np.uint64(2**40), np.int64(7), np.uint64(2**40 + 1), np.int64(3), np.float32(-1.5), np.float32(2.5),
                np.uint64(2**40 + 2), np.int64(5))  # fmt: skip
    assert [(type(value), value) for value in packed] == [(type(value), value) for value in expected]


def test_arguments_that_do_not_fit_are_refused() -> None:
    class Strided(DeviceCells):
        strides = (12,)  # type: ignore[assignment]

    entry = reductions.join.entries[""]
    out = DeviceCells(None, 1, np.dtype("f8"), 4)
    with pytest.raises(TypeError, match="expected a device array of float64 with 1 axes, got float32"):
        entry.pack((DeviceCells(None, 1, np.dtype("f4"), 4), 1, out))
    with pytest.raises(ValueError, match="contiguous"):
        entry.pack((Strided(None, 1, np.dtype("f8"), 4), 1, out))
    with pytest.raises(TypeError, match="expected 3 arguments, got 2"):
        entry.pack((out, 1))
    with pytest.raises(TypeError, match="expected an array of float32, float64; got int32"):
        reductions.add_up.launch(1, DeviceCells(None, 1, np.dtype("i4"), 4), 0.0, out)


def test_a_loop_has_an_entry_for_each_type() -> None:
    loop = DeviceLoop(lambda x, y: None, "T[:, ::1]", "T", types=("int8", "float32"))
    assert {kind: entry.arguments for kind, entry in loop.entries.items()} == {
        "int8": ("int8[:, ::1]", "int8"), "float32": ("float32[:, ::1]", "float32"),
    }  # fmt: skip
    assert loop.entries["int8"].words == ["int8*", "int64", "int64", "int8"]


LAUNCHES = """
import json, sys
from types import SimpleNamespace

import numpy as np

class Refused:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "numba_cuda" or name.startswith("numba.cuda"):
            raise ImportError(name)

sys.meta_path.insert(0, Refused())
loads, calls, null = [], [], object()

class Module:
    def load(self, code):
        loads.append(code[:4])
    def get_function(self, name):
        calls.append(name)
        return lambda *arguments: calls.append(arguments)

class Device:
    compute_capability = "90"
    def __init__(self, number): pass

cuda = SimpleNamespace(
    Module=Module, Device=Device, runtime=SimpleNamespace(getDevice=lambda: 0), Stream=SimpleNamespace(null=null)
)
sys.modules["cupy"] = SimpleNamespace(cuda=cuda)

from gpupipe_kernels.catalog import device_loops
from gpupipe_kernels.device.arrays import DeviceCells
from gpupipe_kernels.keyed.cuda import engine, events
from gpupipe_kernels.reduce.cuda import engine, loops

loop = events.heads
start, head = DeviceCells(None, 4096, np.dtype("i4"), 9), DeviceCells(None, 8192, np.dtype("u1"), 7)
for _ in range(2):
    loop.launch(300, start, head, shared=64)
loop.launch(300, start, head, stream="another")
loops.join.launch(0)
events.gaps = loops.fold.launch(5, 1, 2, 3, DeviceCells(None, 4096, np.dtype("i1"), 5))
assert not [name for name in sys.modules if name.split(".")[0] == "numba_cuda" or name.startswith("numba.cuda")]
first, second, third = calls[1], calls[2], calls[3]
assert calls[0] == "keyed_heads" and calls[4] == "reduce_fold", calls
assert first == ((2, 1), (256, 1), (4096, 9, 8192, 7), 64, null), first
assert second == first and third[4] == "another"
assert loads == [b"\\x7fELF"], loads  # one module for all entries
"""


def test_shipped_code_is_launched_without_numba_cuda() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHES], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_wrappers_and_packed_arguments_compute_what_loops_do() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "tests.kernels.wrapper_checks"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "interpret_columns" in done.stdout


def test_the_wheel_contains_the_shipped_code(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(binaries.PACKAGE.parents[1])).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as content:
        for path in binaries.FOLDER.iterdir():
            assert content.read(f"gpupipe_kernels/compiled/{path.name}") == path.read_bytes()
