"""Packer of the libraries that an offline GPU machine lacks: ``python -m tools.gpu_day.pack --data DIR``.

Run it from the checkout on a machine with network, in gpupipe's development environment. It downloads the wheels of
stages.txt, prunes them, keeps the machine code of one GPU architecture, adds the public tables and the CPU metrics
(`benchmarks.device.cpu_metrics`), and writes each stage as an archive. The archives of consecutive stages form one
stream, cut into parts that fit into a visit with the repository's tracked files; a spare stage is a separate part.
Packing takes 15 to 20 minutes on two cores; unchanged results of the last call with the same --work are reused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.gpu_day import archive, wheels

ROOT = Path(__file__).parents[2]
VISIT_BYTES, PART_BYTES = 64 << 20, 58 << 20
BASE, SPARES = "base", ("numba", "nvvm")
# Tables that the steps and tests read, except online-retail: 9 MiB that do not compress, for two tests.
TABLES = (
    "telco-churn/Telco-Customer-Churn.csv", "adult-income/adult.data", "adult-income/adult.test",
    "diamonds/diamonds.csv", "bike-sharing/bike.csv", "chicago-taxi/chicago_taxi.csv", "nyc-taxi/nyc_taxi.csv",
)  # fmt: skip


def write_parts(archives: Mapping[str, Path], out: Path, part_bytes: int = PART_BYTES) -> dict[str, Any]:
    """Cut the archives of all stages into parts, one folder of `out` each, and return the manifest.

    Parameters
    ----------
    archives : mapping of str to Path
        Stage to archive, in order of arrival.
    out : Path
        Folder for the parts; earlier parts in it are removed.
    part_bytes : int
    """
    out.mkdir(parents=True, exist_ok=True)
    for earlier in out.glob("*/MANIFEST.json"):
        shutil.rmtree(earlier.parent)
    streams = {"main": {name: path for name, path in archives.items() if name not in SPARES}}
    streams |= {name: {name: path} for name, path in archives.items() if name in SPARES}
    manifest: dict[str, Any] = {"parts": {}, "stages": {}}
    for stream, members in streams.items():
        joined = out / "stream"
        for name, span in archive.join(members, joined).items():
            manifest["stages"][name] = {"stream": stream, "start": span.start, "end": span.end}
        for number, (first, block) in enumerate(archive.cut(joined, part_bytes), start=1):
            part = f"part{number}" if stream == "main" else stream
            (out / part).mkdir()
            (out / part / "bytes").write_bytes(block)
            digest = hashlib.sha256(block).hexdigest()
            manifest["parts"][part] = {"stream": stream, "first": first, "bytes": len(block), "sha256": digest}
        joined.unlink()
    for part in manifest["parts"]:
        (out / part / "MANIFEST.json").write_text(json.dumps(manifest, indent=1), encoding="utf8")
    return manifest


def completed(manifest: Mapping[str, Any], part: str) -> list[str]:
    """Return the stages that a part completes."""
    row = manifest["parts"][part]
    return [
        name
        for name, stage in manifest["stages"].items()
        if stage["stream"] == row["stream"] and row["first"] < stage["end"] <= row["first"] + row["bytes"]
    ]


def _pack_stage(
    name: str, requirements: Sequence[str], files: Mapping[str, Path], downloaded: Path, work: Path
) -> Path:
    """Return the archive of a stage: its wheels, and further files by their path in it."""
    target, kept, site = work / f"{name}.tar.xz", work / f"{name}.key", work / f"site-{name}"
    key = _key(requirements, files, downloaded)
    if target.exists() and kept.exists() and kept.read_text() == key:
        print(f"{name}: {target.stat().st_size / 2**20:.1f} MiB, unchanged", flush=True)
        return target
    kept.unlink(missing_ok=True)
    shutil.rmtree(site, ignore_errors=True)
    wheels.install(requirements, downloaded, site)
    for path, source in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, site / path)
    archive.write_archive(site, target)
    shutil.rmtree(site)
    kept.write_text(key)
    print(f"{name}: {target.stat().st_size / 2**20:.1f} MiB", flush=True)
    return target


def _key(requirements: Sequence[str], files: Mapping[str, Path], folder: Path) -> str:
    """Return the hash of a stage's inputs, including these tools."""
    found = hashlib.sha256(json.dumps([list(requirements), sorted(path.name for path in folder.iterdir())]).encode())
    tools = {module: Path(__file__).with_name(module) for module in ("wheels.py", "fatbin.py", "archive.py")}
    for path, source in {**tools, **files}.items():
        found.update(f"{path}\0".encode() + hashlib.sha256(source.read_bytes()).digest())
    return found.hexdigest()


def _base_files(data: Path, work: Path) -> dict[str, Path]:
    """Compute missing CPU metrics; return the files that the first stage contains in addition to wheels."""
    metrics = work / "cpu_metrics.json"
    command = [sys.executable, "-m", "benchmarks.device.cpu_metrics", "--out", str(metrics)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {**os.environ, "GPUPIPE_DATA": str(data.resolve()), "PYTHONPATH": path}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    tables = {f"data/{table}": data / table for table in TABLES}
    return {"sitecustomize.py": Path(__file__).with_name("startup.py"), "cpu_metrics.json": metrics, **tables}


def _tracked_bytes() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sum((ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).exists())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the parts; return 1 if one exceeds the limit of a visit."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_day.pack", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the public tables")
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".gpu", metavar="DIR", help="folder for the parts (default: .gpu)"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu_day", metavar="DIR",
                        help="folder for downloads and archives (default: build/gpu_day)")  # fmt: skip
    parser.add_argument("--without", action="append", default=[], metavar="STAGE", help="do not pack this stage")
    options = parser.parse_args(arguments)
    stages = wheels.read_stages(Path(__file__).with_name("stages.txt"))
    stages = {name: lines for name, lines in stages.items() if name not in options.without}
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    requirements = [line for lines in stages.values() for line in lines]
    downloaded = work / f"wheels-{hashlib.sha256(json.dumps(requirements).encode()).hexdigest()[:8]}"
    if not downloaded.exists():
        wheels.download(requirements, work / "downloading")
        (work / "downloading").rename(downloaded)
    files = {BASE: _base_files(options.data, work)}
    archives = {name: _pack_stage(name, lines, files.get(name, {}), downloaded, work) for name, lines in stages.items()}
    manifest = write_parts(archives, options.out)
    tracked, fits = _tracked_bytes(), True
    for part in manifest["parts"]:
        size = sum(path.stat().st_size for path in (options.out / part).iterdir())
        fits &= size + tracked <= VISIT_BYTES
        arrives = ", ".join(completed(manifest, part)) or "no stage"
        print(
            f"{part}: {size / 2**20:.1f} MiB, {(size + tracked) / 2**20:.1f} with the repository; completes {arrives}"
        )
    if not fits:
        print(f"a part and the repository exceed the {VISIT_BYTES >> 20} MiB of a visit: lower PART_BYTES in pack.py")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
