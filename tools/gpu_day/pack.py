"""Packer of what an offline GPU machine lacks: ``python -m tools.gpu_day.pack --data DIR``.

Run it from the checkout on a machine with network and Python 3.12, in gpupipe's development environment. It writes the
folders of ``.gpu`` that travel with the visits of `schedule`, imports them in an environment like that of the GPU
machine, and prints what travels with each visit and the seconds of the schedule. Unchanged results of the last call
with the same --work are reused. The exit code is 1 if something does not fit or does not import.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.gpu_day import wheels
from tools.gpu_day.schedule import CARRIED_BYTES, SPARE_BYTES, VISITS, schedule_lines
from tools.gpu_day.visit import environment_of, unpack

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent
FOLDERS = {"1": ("1",), "2": ("2",), "3": ("3a", "3b"), "nvvm": ("nvvm",)}  # of each section of freight.txt
TABLES = (
    "telco-churn/Telco-Customer-Churn.csv",
    "adult-income/adult.data",
    "adult-income/adult.test",
    "diamonds/diamonds.csv",
)
IMPLIED = ("torch==2.11.0", "nvidia-nccl-cu13", "cuda-toolkit==13.*", "cuda-pathfinder", "python-dateutil")
RECORDED_STEPS = ("churn", "networks")
# Modules that must be importable with each folder; not cuDF, which needs CUDA's libraries.
IMPORTS = {"1": "gpupipe.config, benchmarks.device.steps, gpupipe_kernels.catalog", "2": "xgboost"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the folders of the visits; return 1 if one does not fit or cannot be imported."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_day.pack", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--sections", nargs="+", choices=list(FOLDERS), default=list(FOLDERS), help="(default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the public tables")
    parser.add_argument("--out", type=Path, default=ROOT / ".gpu", metavar="DIR", help="(default: .gpu)")
    parser.add_argument(
        "--work",
        type=Path,
        default=ROOT / "build" / "gpu_day",
        metavar="DIR",
        help="folder for downloads, kept between calls (default: build/gpu_day)",
    )
    parser.add_argument("--python", default=f"python{wheels.PYTHON}", help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    machine = read_machine(HERE / "machine.txt")
    for section, requirements in wheels.read_requirements(HERE / "freight.txt").items():
        if section in options.sections:
            _pack(section, requirements, machine, options)
    python = _machine_python(options.work.resolve(), options.python)
    failed = [*_import_errors(options.out, python, options.work.resolve()), *_oversized(options.out)]
    print(*failed, *schedule_lines(), sep="\n")
    return 1 if failed else 0


def read_machine(path: Path) -> dict[str, Requirement]:
    """Return canonical name to requirement for the packages of the machine, with those of PyTorch."""
    lines = [*wheels.read_requirements(path)[""], *IMPLIED]
    return {canonicalize_name(one.name): one for one in map(Requirement, lines)}


def _pack(
    section: str, requirements: Sequence[str], machine: Mapping[str, Requirement], options: argparse.Namespace
) -> None:
    """Write the folders of a section of freight.txt."""
    work = options.work.resolve() / section
    digest = hashlib.sha256(json.dumps([requirements, sorted(map(str, machine.values()))]).encode()).hexdigest()[:8]
    downloaded = work / f"wheels-{digest}"
    if not (downloaded / ".complete").exists():
        shutil.rmtree(work, ignore_errors=True)
        wheels.download(requirements, downloaded, machine)
        (downloaded / ".complete").touch()
    found = [wheels.Wheel.of(path) for path in sorted(downloaded.glob("*.whl"))]
    for folder in FOLDERS[section]:
        shutil.rmtree(options.out / folder, ignore_errors=True)
        (options.out / folder).mkdir(parents=True)
    target = options.out / FOLDERS[section][0]
    if section == "1":
        for wheel in found:
            shutil.copy(wheel.path, target)
        return
    tools = b"".join((HERE / name).read_bytes() for name in ("wheels.py", "fatbin.py"))
    archive = work / f"section-{section}-{hashlib.sha256(tools).hexdigest()[:8]}.zip"
    if not archive.exists():
        wheels.slim(found, work / "site", work / "new.zip")
        (work / "new.zip").rename(archive)
        shutil.rmtree(work / "site")
    if section == "3":
        limits = [CARRIED_BYTES - SPARE_BYTES - bytes_of(options.out, freight) for freight in (("1", "2"), ())]
        shutil.copy(archive, work / "section-3.zip")
        cut(work / "section-3.zip", [options.out / folder for folder in FOLDERS[section]], limits)
        return
    shutil.copy(archive, target / f"section-{section}.zip")
    if section == "2":
        wheels.write_zip(_files_of_steps(options.data, work), target / "steps.zip")


def _files_of_steps(data: Path | None, work: Path) -> dict[str, Path]:
    """Compute missing CPU metrics; return the files that the steps read, by their path on the machine."""
    metrics = work.parent / "cpu_metrics.json"
    command = [sys.executable, "-m", "benchmarks.device.cpu_metrics", "--out", str(metrics), "--steps", *RECORDED_STEPS]
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True)
    tables = {f"data/{table}": data / table for table in TABLES if (data / table).exists()} if data else {}
    if len(tables) < len(TABLES):
        print(
            f"{len(TABLES) - len(tables)} public tables are not packed: their tests will fail; see --data", flush=True
        )
    return {"cpu_metrics.json": metrics, **tables}


def cut(archive: Path, folders: Sequence[Path], limits: Sequence[int]) -> None:
    """Write an archive as pieces, one to a folder, the first ones as large as their limits in bytes allow."""
    with archive.open("rb") as source:
        for number, (folder, limit) in enumerate(zip(folders, limits, strict=True), start=1):
            n_bytes = limit if number < len(folders) else -1  # what is too much is reported with the sizes
            (folder / f"{archive.name}.{number}of{len(folders)}").write_bytes(source.read(n_bytes))


def _machine_python(work: Path, python: str) -> Path:
    """Return the Python of an environment with the packages of machine.txt, created at the first call."""
    listed = (HERE / "machine.txt").read_bytes()
    folder = work / f"machine-{hashlib.sha256(listed).hexdigest()[:8]}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(HERE / "machine.txt")]
        subprocess.run(pip, check=True)
        (folder / ".complete").touch()
    return folder / "bin" / "python"


def _import_errors(out: Path, python: Path, work: Path) -> Iterator[str]:
    """Unpack what was packed as a visit does, import it, and yield the errors."""
    site, names = work / "unpacked", [IMPORTS[folder] for folder in ("1", "2") if (out / folder).is_dir()]
    shutil.rmtree(site, ignore_errors=True)
    print(*unpack(out, site), sep="\n", flush=True)
    if not names:
        return
    done = subprocess.run(
        [str(python), "-P", "-c", f"import {', '.join(names)}"],
        cwd=ROOT,
        env=environment_of(site),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        yield f"NOT importable: {', '.join(names)}: {done.stderr.strip().splitlines()[-1]}"


def bytes_of(out: Path, freight: Sequence[str]) -> int:
    """Return the bytes that travel: the repository's files that git does not ignore, and folders of `out`."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [ROOT / name for name in names if name] + [path for one in freight for path in (out / one).glob("*")]
    return sum(path.stat().st_size for path in files if path.is_file())


def _oversized(out: Path) -> Iterator[str]:
    """Print what travels with each visit, and yield the visits that are too large."""
    for name, visit in VISITS.items():
        size = bytes_of(out, visit.freight)
        absent = [folder for folder in visit.freight if not (out / folder).is_dir()]
        note = f"; not packed: {', '.join(absent)}" if absent else ""
        sizes = (
            f"{size / 2**20:.1f} of {CARRIED_BYTES >> 20} MiB, {bytes_of(out, ()) / 2**20:.1f} of them the repository"
        )
        print(f"visit {name}: {sizes}{note}")
        if size > CARRIED_BYTES:
            yield f"visit {name} is TOO LARGE by {(size - CARRIED_BYTES) / 2**20:.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
