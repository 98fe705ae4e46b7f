"""Visits to an offline GPU machine: packed, cut, unpacked, scheduled; and the table of their results."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from benchmarks.device.results import StepResult, StepResults
from benchmarks.device.steps import STEPS
from tools.gpu_day import pack, schedule, table, visit, wheels
from tools.gpu_day.fatbin import CUBIN, MAGIC, PTX, blank_other_architectures
from tools.gpu_day.schedule import CARRIED_BYTES, VISITS
from tools.gpu_day.toolkit import toolkit_environment

HERE = Path(pack.__file__).parent
README = (HERE / "README.md").read_text(encoding="utf8")


def write_wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(f"{name}/__init__.py", f"version = {version!r}")
    return path


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """A package index: name to versions with their requirements, the newest last."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {
        "pydantic": [("2.13.0", ("core==2.49.0",)), ("2.14.4", ("core==2.50.5", "numpy>=2", "email; extra == 'e'"))],
        "core": [("2.49.0", ()), ("2.50.4", ()), ("2.50.5", ()), ("2.51.0", ())],
        "lonely": [("1.0", ("absent>=1",))],
        "modern": [("1.0", ("numpy>=3",))],
    }

    def pip(*arguments: str) -> None:
        folder = Path(arguments[arguments.index("--dest") + 1])
        for requirement in map(Requirement, arguments[arguments.index("--dest") + 2 :]):
            matching = [one for one in found[requirement.name] if requirement.specifier.contains(one[0])]
            write_wheel(folder, requirement.name, matching[-1][0], *matching[-1][1])

    monkeypatch.setattr(wheels, "_pip", pip)
    return found


MACHINE = {"numpy": Requirement("numpy==2.5.2")}


@pytest.mark.parametrize("wanted", [["pydantic", "core"], ["pydantic", "core==2.50.4"], ["core", "pydantic<2.14"]])
@pytest.mark.usefixtures("index")
def test_a_wheel_that_pins_another_gets_the_version_that_it_requires(wanted: list[str], tmp_path: Path) -> None:
    found = {wheel.name: str(wheel.version) for wheel in wheels.download(wanted, tmp_path / "new", MACHINE)}
    pinned = "2.49.0" if "pydantic<2.14" in wanted else "2.50.5"
    assert found["core"] == pinned
    assert wheels.conflicts([wheels.Wheel.of(path) for path in (tmp_path / "new").iterdir()], MACHINE) == {}


@pytest.mark.parametrize(("wanted", "message"), [("lonely", "neither carried nor on the machine: absent>=1"),
                                                 ("modern", "neither carried nor on the machine: numpy>=3"),
                                                 ("pydantic", "core==2.50.5")])  # fmt: skip
@pytest.mark.usefixtures("index")
def test_a_requirement_that_nothing_satisfies_is_refused(wanted: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=re.escape(message)):
        wheels.download([wanted], tmp_path / "new", MACHINE)


@pytest.mark.usefixtures("index")
def test_a_requirement_that_no_visit_uses_is_ignored_by_name(tmp_path: Path) -> None:
    (wheel,) = wheels.download(["lonely", "!absent"], tmp_path / "new", MACHINE)
    assert wheel.name == "lonely"


def test_the_lists_of_packages_are_readable() -> None:
    freight, machine = wheels.read_requirements(HERE / "freight.txt"), pack.read_machine(HERE / "machine.txt")
    assert list(freight) == list(pack.FOLDERS)
    names = {Requirement(line).name for lines in freight.values() for line in lines if not line.startswith("!")}
    assert {"pydantic", "pydantic-core", "xgboost"} <= names
    assert names & machine.keys() == {"pandas"}  # cuDF needs an older one
    assert str(machine["numpy"]) == "numpy==2.5.2"
    assert {folder for one in VISITS.values() for folder in one.freight} == {
        folder for name, folders in pack.FOLDERS.items() if name != "nvvm" for folder in folders
    }


@pytest.fixture
def freight(tmp_path: Path) -> Path:
    """A folder with a wheel, a damaged archive, and an archive in two pieces."""
    out = tmp_path / "freight"
    for name in ("1", "2", "3a", "3b"):
        (out / name).mkdir(parents=True)
    write_wheel(out / "1", "pydantic", "2.14.4")
    site = tmp_path / "contents"
    site.mkdir()
    (site / "large.bin").write_bytes(bytes(range(256)) * 50)
    (site / "code.py").write_text("x = 1")
    wheels.write_zip({"cudf/large.bin": site / "large.bin", "cudf/code.py": site / "code.py"}, tmp_path / "all.zip")
    pack.cut(tmp_path / "all.zip", [out / "3a", out / "3b"], [100, 0])
    assert (out / "3a" / "all.zip.1of2").stat().st_size == 100
    damaged = bytearray((tmp_path / "all.zip").read_bytes())
    damaged[60] ^= 255
    (out / "2" / "damaged.zip").write_bytes(damaged)
    return out


def test_archives_are_unpacked_as_they_arrive_and_a_damaged_one_stops_no_other(freight: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (freight / "3b" / "all.zip.2of2").rename(tmp_path / "later")
    wheel, damaged, piece = visit.unpack(freight, site)
    assert wheel.startswith("pydantic-2.14.4-py3-none-any.whl: unpacked in ")
    assert damaged.startswith("damaged.zip: NOT unpacked: ")
    assert piece == "all.zip.1of2: kept; all.zip.2of2 not arrived"
    assert (site / "pydantic" / "__init__.py").exists() and (site / "sitecustomize.py").exists()
    (tmp_path / "later").rename(freight / "3b" / "all.zip.2of2")
    (freight / "3a" / "all.zip.1of2").unlink()  # kept since it arrived
    again = list(visit.unpack(freight, site))
    assert again[0] == "pydantic-2.14.4-py3-none-any.whl: unpacked earlier"
    assert again[-1].startswith("all.zip: unpacked in ")
    assert (site / "cudf" / "large.bin").read_bytes() == bytes(range(256)) * 50


def test_the_machines_cuda_libraries_are_linked_for_cudf_alone(tmp_path: Path) -> None:
    own = tmp_path / "machine" / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.13"
    own.parent.mkdir(parents=True)
    own.write_text("the machine's")
    own.with_name("libother.so").write_text("none of CUDA's")
    site = tmp_path / "site"
    assert visit.link_cuda(site, ["", str(site), str(tmp_path / "machine")]) == 1
    assert (site / "nvidia" / "cu13" / "lib" / "libcudart.so.13").read_text() == "the machine's"
    assert visit.link_cuda(site, [str(tmp_path / "machine")]) == 0


@pytest.mark.parametrize("name", VISITS)
def test_a_visit_runs_its_steps_even_if_nothing_has_arrived(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    def run(command: list[str], **settings: Any) -> Any:
        started.append((command, settings["env"]))
        return SimpleNamespace(returncode=1, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(visit, "toolkit_environment", lambda site: {"CUDA_HOME": "/cuda"})
    site, out = tmp_path / "site", tmp_path / "out"
    code = visit.main([name, "--out", str(out), "--freight", str(tmp_path / "none"), "--site", str(site)])
    assert "nothing has arrived" in (out / "log.txt").read_text()
    assert (code, len(started)) == ((1, 1) if VISITS[name].steps else (0, 0))
    for command, environment in started:
        assert command[1:4] == ["-m", "benchmarks.device", "--unchecked"]
        assert command[command.index("--steps") + 1].split(",") == list(VISITS[name].steps)
        assert environment["PYTHONPATH"].startswith(f"{site}:") and environment["CUDA_HOME"] == "/cuda"
        assert environment["GPUPIPE_CPU_METRICS"] == ""  # they have not arrived


def test_the_seconds_of_the_visits_fit_into_the_day() -> None:
    spent = {name: one.seconds + schedule.UNPACK_SECONDS for name, one in VISITS.items()}
    assert max(spent.values()) <= schedule.COMMAND_SECONDS
    assert schedule.START_SECONDS[1] + spent["1"] + spent["2"] <= schedule.DAY_SECONDS
    assert f"{sum(spent.values())} s so far" in schedule.schedule_lines()[-2]


def test_every_step_and_test_of_a_visit_exists() -> None:
    for one in VISITS.values():
        for name in one.steps:
            assert name in STEPS
            closure = dict(zip(STEPS[name].run.__code__.co_freevars, STEPS[name].run.__closure__ or (), strict=True))
            if closure:  # a function of a module that is imported when the step runs
                module = import_module(f"benchmarks.device.{closure['module'].cell_contents}")
                assert callable(getattr(module, closure["function"].cell_contents))
    assert {name for name in table.FIGURES} <= STEPS.keys()


def test_the_page_states_the_schedule() -> None:
    for name, one in VISITS.items():
        carried = " ".join(f".gpu/{folder}" for folder in one.freight)
        row = re.search(rf"^\| {name} \| .*? \| `{re.escape(carried)}` \| `(.*)` \| (\d+) s \|$", README, re.MULTILINE)
        assert row is not None, name
        assert row[1] == f'python3 -m tools.gpu_day.visit {name} --out "$OUT"'
        assert one.seconds + schedule.UNPACK_SECONDS <= int(row[2]) <= schedule.COMMAND_SECONDS
        assert f"| {name} | {one.seconds} s |" in README or not one.steps
    scripts = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert len(scripts) == 3
    subprocess.run(["bash", "-n"], input="\n".join(scripts), text=True, check=True)
    for module in re.findall(r"-m (tools[\w.]+)", README):
        import_module(module)


def test_the_repository_counts_towards_what_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, n_bytes in {"1": 1_000, "2": CARRIED_BYTES}.items():
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "file").open("wb") as file:
            file.truncate(n_bytes)
    repository = pack.bytes_of(tmp_path, ())
    assert repository > 5 << 20
    assert pack.bytes_of(tmp_path, ("1",)) == repository + 1_000
    problems = list(pack._oversized(tmp_path))
    assert [problem.partition(" by")[0] for problem in problems] == ["visit 2 is TOO LARGE", "visit 3a is TOO LARGE"]
    assert "visit 3b: " in capsys.readouterr().out


def test_results_of_several_visits_become_one_table(tmp_path: Path) -> None:
    row = {"order": "row-major", "rows": 50_000_000, "columns": 20, "first_seconds": 4.2,
           "seconds": 0.0025, "bytes_per_second": 2.82e12, "share_of_copy": 0.705}  # fmt: skip
    sample = {"total_s": 2.0, "roc_auc": 0.81}
    churn = {
        "rows": 50_000_000, "metrics": {"gpu": {"roc_auc": 0.8}, "cpu": {"roc_auc": 0.81}},
        "implementations": {"gpupipe, GPU": {"samples": [{**sample, "total_s": 9.0}, sample]},
                            "by hand, GPU": {"samples": [{"total_s": 3.0, "auc": 0.8}]}},
    }  # fmt: skip
    ended = "2026-12-01T10:00:00+00:00"
    first, second = StepResults(tmp_path / "1", []), StepResults(tmp_path / "2", [])
    for result in (
        StepResult("environment", "", "done", figures={"gpu": "NVIDIA H200", "driver": "580.1"}, ended=ended),
        StepResult("probes", "", "done", figures={"probes": {"versions": {"cupy-cuda13x": "14.2.0"}}}, ended=ended),
        StepResult("program", "", "done", figures={"copy_bytes_per_second": 4e12, "program": [row]}, ended=ended),
        StepResult("kernels", "Tests", "failed", 9.0, "1 failed", figures={"counts": {"PASSED": 39}}, ended=ended),
        StepResult("sanitizer", "Every kernel", "done", 9.0, "", ["memcheck: 30", "racecheck: 30"], ended=ended),
        StepResult("batches", "Mini-batches", "timed out", reason="timed out after 35 s", ended=ended),
    ):  # fmt: skip
        first.order.append(result.name)
        first.add(result)
    second.order.append("churn")
    second.add(StepResult("churn", "", "done", figures=churn, ended=ended))
    (tmp_path / "2" / "networks.json").write_text('{"lines": [], "metrics": {}, "train_seconds": {"mlp, bf16": 1.5}}')
    assert table.main([str(tmp_path / "1"), str(tmp_path / "2"), "--out", str(tmp_path / "all")]) == 0
    text = (tmp_path / "all" / "table.md").read_text()
    assert text.startswith("Measured on 2026-12-01 with NVIDIA H200, driver 580.1, cupy-cuda13x 14.2.0.\n")
    for line in (
        "| copy on the device | 4,000 GB/s, read and written |",
        "| 20 columns of 50,000,000 rows, row-major | 2.50 ms, 2,820 GB/s, 70% of the copy; first call 4.2 s |",
        "| tests of kernels and mini-batches | 39 passed |",
        "| Tests | FAILED: 1 failed |",
        "| Every kernel | memcheck: 30; racecheck: 30 |",
        "| Mini-batches | TIMED OUT: timed out after 35 s |",
        "| 50,000,000 customers, gpupipe, GPU | 9.00 s, then 2.00 s; ROC-AUC 0.8100 |",
        "| gpupipe relative to the hand-written script | 1.50 times as fast |",
        "| ROC-AUC of XGBoost on the same rows | 0.80000 on the GPU, 0.81000 on the CPU |",
        "| mlp, bf16, training | 1.5 s |",
        "| Networks in float32 and bfloat16 | BROKEN: the visit ended during it |",
        "README: 20 columns in one launch at 70% of a copy's bandwidth; 50,000,000 customers from end to end in 2.0 s.",
    ):
        assert line in text, line
    assert table.main([str(tmp_path / "none"), "--out", str(tmp_path / "nothing")]) == 1


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
