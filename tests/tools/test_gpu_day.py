"""Packages for an offline GPU machine: packed, copied one by one, unpacked; and their fat binaries."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from benchmarks.device.steps import STEPS
from tools.gpu_day import archive, unpack, visit, wheels
from tools.gpu_day.fatbin import CUBIN, MAGIC, PTX, blank_other_architectures
from tools.gpu_day.pack import SPARES, completed, write_parts
from tools.gpu_day.toolkit import toolkit_environment

PART_BYTES = 2_000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def stages(tmp_path: Path) -> dict[str, Path]:
    """Folders of four stages: of less than a part, of several, of one file twice; the last is a spare."""
    sizes = {"base": [500], "cudf": [3_000, 4_500], "cuml": [5_000, 5_000], "nvvm": [100]}
    for name, lengths in sizes.items():
        folder = tmp_path / "stages" / name / name
        folder.mkdir(parents=True)
        for i, length in enumerate(lengths):
            (folder / f"lib{i}.so").write_bytes(os.urandom(length))
        (folder / "code.py").write_text(name)
    cuml = tmp_path / "stages" / "cuml" / "cuml"
    (cuml / "lib1.so").write_bytes((cuml / "lib0.so").read_bytes())
    (cuml / "lib.so").symlink_to("lib0.so")
    return {name: tmp_path / "stages" / name for name in sizes}


@pytest.fixture
def parts(stages: dict[str, Path], tmp_path: Path) -> Path:
    """The folder of parts that hold `stages`."""
    archives = {name: tmp_path / f"{name}.tar.xz" for name in stages}
    for name, folder in stages.items():
        archive.write_archive(folder, archives[name])
    manifest = write_parts(archives, tmp_path / "parts", PART_BYTES)
    n_main = len(manifest["parts"]) - 1
    assert n_main >= 5
    assert list(manifest["parts"])[-1] == "nvvm" and completed(manifest, "nvvm") == ["nvvm"]
    assert [name for i in range(n_main) for name in completed(manifest, f"part{i + 1}")] == ["base", "cudf", "cuml"]
    return tmp_path / "parts"


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_stages_are_unpacked_as_soon_as_their_last_byte_has_arrived(
    stages: dict[str, Path], parts: Path, tmp_path: Path
) -> None:
    site, expected = tmp_path / "site", dict[str, bytes]()
    names = sorted(path.name for path in parts.iterdir() if path.name not in SPARES)
    before = ""
    for part in names:
        report = unpack.unpack(parts / part, site, [])
        for name in ("base", "cudf", "cuml"):
            (line,) = (line for line in report if line.startswith(f"{name}: "))
            is_there = (site / name / "code.py").exists()
            assert is_there == ("unpacked" in line), line
            assert is_there or line.endswith("bytes have not arrived")
        before = "\n".join(report)
    assert "base: unpacked earlier" in before and "cuml: unpacked in" in before
    for name in ("base", "cudf", "cuml"):
        expected |= contents(stages[name])
    unpacked = {name: data for name, data in contents(site).items() if not name.startswith(".")}
    assert unpacked == expected
    assert (site / "cuml" / "lib.so").is_symlink()
    assert os.path.samefile(site / "cuml" / "lib0.so", site / "cuml" / "lib1.so")  # equal files are packed once


def test_a_corrupt_part_is_refused_and_nothing_of_it_is_kept(
    parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = bytearray((parts / "part1" / "bytes").read_bytes())
    block[100] ^= 1
    (parts / "part1" / "bytes").write_bytes(block)
    site = tmp_path / "site"
    assert unpack.main([str(parts / "part1"), str(site)]) == 1
    assert "part1 is corrupt" in capsys.readouterr().err
    assert contents(site) == {}
    assert visit.main(["1", "--out", str(tmp_path / "out"), "--parts", str(parts), "--site", str(site)]) == 1
    assert "part1 is corrupt" in capsys.readouterr().err


def test_the_machines_cuda_libraries_are_linked_and_never_written_through(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    own = machine / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.13"
    own.parent.mkdir(parents=True)
    own.write_text("the machine's")
    other = own.with_name("libother.so")
    other.write_text("none of CUDA's")
    packed = tmp_path / "stages" / "nvidia" / "cu13" / "lib"
    for stage in ("first", "second"):
        folder = tmp_path / stage
        (folder / stage).mkdir(parents=True)
        (folder / stage / "code.py").write_text("1")
    packed = tmp_path / "second" / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    packed.parent.mkdir(parents=True)
    packed.write_text("carried")
    archives = {name: tmp_path / f"{name}.tar.xz" for name in ("first", "second")}
    for name, path in archives.items():
        archive.write_archive(tmp_path / name, path)
    first_bytes = archives["first"].stat().st_size
    write_parts(archives, tmp_path / "parts", first_bytes)
    site = tmp_path / "site"
    link = site / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    assert unpack.unpack(tmp_path / "parts" / "part1", site, [str(machine)])[-1].startswith("linked 1 ")
    assert link.is_symlink() and link.read_text() == "the machine's"
    assert not link.with_name("libother.so").exists()
    for part in sorted((tmp_path / "parts").iterdir())[1:]:
        unpack.unpack(part, site, [str(machine)])
    assert not link.is_symlink() and link.read_text() == "carried"
    assert own.read_text() == "the machine's"


def entry(kind: int, architecture: int, payload: bytes) -> bytes:
    header = struct.pack("<HHIQ", kind, 1, 64, len(payload)).ljust(28, b"\0") + struct.pack("<I", architecture)
    return header.ljust(64, b"\0") + payload


def elf(*containers: list[bytes]) -> bytes:
    """Return a shared library of three sections: none, the fat binaries, the names."""
    body = b""
    for entries in containers:
        joined = b"".join(entries)
        body += struct.pack("<IHHQ", MAGIC, 1, 16, len(joined)) + joined + bytes(8)  # and padding
    names = b"\0.nv_fatbin\0.shstrtab\0"
    at = 64
    sections = [(0, 0, 0, 0), (1, 1, at, len(body)), (12, 3, at + len(body), len(names))]
    table = b"".join(struct.pack("<IIQQQQ", name, kind, 0, 0, start, size).ljust(64, b"\0")
                     for name, kind, start, size in sections)  # fmt: skip
    head = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", at + len(body) + len(names))
    head = head.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(sections), 2)
    return head.ljust(64, b"\0") + body + names + table


def test_only_the_machine_code_of_one_architecture_is_kept(tmp_path: Path) -> None:
    exact = [entry(CUBIN, 80, b"sm_80 code"), entry(CUBIN, 90, b"sm_90 code"), entry(PTX, 90, b"text of 90")]
    older = [entry(CUBIN, 75, b"sm_75 code"), entry(PTX, 80, b"text of 80"), entry(PTX, 75, b"text of 75")]
    newer = [entry(CUBIN, 100, b"100's code"), entry(PTX, 120, b"text of 120")]
    path = tmp_path / "lib.so"
    data = elf(exact, older, newer)
    path.write_bytes(data)
    found = blank_other_architectures(path, 90)
    assert found is not None
    for gone in (b"sm_80 code", b"text of 90", b"sm_75 code", b"text of 75"):
        data = data.replace(gone, bytes(len(gone)))
    assert path.read_bytes() == data  # code without a replacement stays, so that the loader reports why it does not run
    assert (found.kept_bytes, found.blanked_bytes) == (10 + 10 + 21, 40)


def test_files_without_a_fat_binary_are_skipped_and_a_malformed_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(b"no ELF file")
    assert blank_other_architectures(path, 90) is None
    path.write_bytes(elf([entry(7, 90, b"of an unknown kind")]))
    with pytest.raises(ValueError, match="malformed entry at 0x50 in a fat binary: kind 7"):
        blank_other_architectures(path, 90)


def test_each_step_belongs_to_one_visit_that_has_time_for_it() -> None:
    assert [step for one in visit.VISITS.values() for step in one.steps] == sorted(
        STEPS, key=lambda name: next(n for n, one in visit.VISITS.items() if name in one.steps)
    )
    for one in visit.VISITS.values():
        reserved = visit.COUNTERS_SECONDS if one.counters else 0
        assert sum(STEPS[name].seconds for name in one.steps) + reserved <= visit.VISIT_SECONDS


def test_a_visit_names_the_missing_parts_to_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site, out = tmp_path / "site", tmp_path / "out"
    assert visit.main(["4", "--out", str(out), "--parts", str(tmp_path), "--site", str(site)]) == 1
    assert "carry part1 to part3 first" in capsys.readouterr().err


def test_numba_is_pointed_to_the_toolkit_and_libnvvm_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "toolkit"
    (home / "nvvm" / "libdevice").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "libnvvm.so.4").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(home))
    monkeypatch.setenv("LD_LIBRARY_PATH", "elsewhere")
    site = tmp_path / "site"
    found = toolkit_environment(site)
    assert found["CUDA_HOME"] == str(home)
    alone, others = found["LD_LIBRARY_PATH"].split(os.pathsep)
    assert others == "elsewhere"
    assert [path.resolve() for path in Path(alone).iterdir()] == [(home / "lib" / "libnvvm.so.4").resolve()]


def test_stages_are_read_in_their_order() -> None:
    stages = wheels.read_stages(ROOT / "tools" / "gpu_day" / "stages.txt")
    assert list(stages) == ["base", "numba", "nvvm", "cudf", "cuml", "dask"]
    assert "pydantic==2.14.*" in stages["base"] and all(lines for lines in stages.values())
