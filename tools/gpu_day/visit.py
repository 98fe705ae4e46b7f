"""One visit to the GPU machine: ``python3 -m tools.gpu_day.visit 1 --out DIR``, from the root of the checkout.

Unpacks what has arrived in ``.gpu`` into a folder of the machine, and runs the steps of the visit. Nothing that is
absent stops it: a step without its packages is skipped with the reason. Results are in DIR as soon as they exist. The
exit code is that of the steps: 1 if one of them failed or timed out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tools.gpu_day.schedule import VISITS
from tools.gpu_day.toolkit import toolkit_environment

ROOT = Path(__file__).parents[2]
SITE = Path(tempfile.gettempdir()) / "gpupipe-site"
PIECE = re.compile(r"(.+)\.(\d)of(\d)")  # of a file that does not fit into one visit
CUDA_LIBRARIES = (
    "libcublas", "libcudart", "libcufft", "libcufile", "libcurand", "libcusolver", "libcusparse.", "libnvJitLink",
    "libnvrtc", "libnvvm",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a visit and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.gpu_day.visit", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("visit", choices=list(VISITS))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for results")
    parser.add_argument("--freight", type=Path, default=ROOT / ".gpu", metavar="DIR", help="(default: .gpu)")
    parser.add_argument(
        "--site", type=Path, default=SITE, metavar="DIR", help="folder for packages (default: %(default)s)"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="rows of the tables, for a rehearsal")
    options = parser.parse_args(arguments)
    visit, site = VISITS[options.visit], options.site.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "log.txt").open("a", encoding="utf8") as log:
        for line in unpack(options.freight, site):
            print(line, flush=True)
            print(line, file=log, flush=True)
    if not visit.steps:
        return 0
    command = [
        sys.executable, "-m", "benchmarks.device", "--unchecked", "--out", str(options.out.resolve()),
        "--steps", ",".join(visit.steps), "--seconds", str(visit.seconds),
    ]  # fmt: skip
    command += ["--rows", str(options.rows)] if options.rows else []
    return subprocess.run(command, cwd=ROOT, env=environment_of(site), check=False).returncode


def unpack(freight: Path, site: Path) -> Iterator[str]:
    """Unpack all archives in the folders of `freight` into `site`, each once, and yield a line for each.

    A file in pieces is unpacked when its last piece has arrived; pieces are kept in `site` until then.
    """
    kept = site / ".arrived"
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(__file__).with_name("startup.py"), site / "sitecustomize.py")
    arrived = sorted(path for path in freight.glob("*/*") if path.is_file())
    if not arrived:
        yield f"nothing has arrived in {freight}: steps without their packages are skipped"
    for path in arrived:
        if piece := PIECE.fullmatch(path.name):
            shutil.copyfile(path, kept / path.name)
            pieces = [kept / f"{piece[1]}.{number}of{piece[3]}" for number in range(1, int(piece[3]) + 1)]
            if missing := [one.name for one in pieces if not one.exists()]:
                yield f"{path.name}: kept; {', '.join(missing)} not arrived"
                continue
            path = _joined(pieces, kept / piece[1])
        yield _unpack_one(path, site, kept / f"{path.name}.done")
    if (site / "libcudf").is_dir():
        yield f"linked {link_cuda(site, sys.path)} CUDA libraries of this machine"


def _joined(pieces: Iterable[Path], target: Path) -> Path:
    with target.open("wb") as joined:
        for piece in pieces:
            joined.write(piece.read_bytes())
    return target


def _unpack_one(path: Path, site: Path, done: Path) -> str:
    if done.exists():
        return f"{path.name}: unpacked earlier"
    start = time.monotonic()
    try:
        with zipfile.ZipFile(path) as archive:  # a wheel is one too; its checksums are compared
            archive.extractall(site)
    except Exception as error:  # of a damaged archive, by any decompressor; the steps report what they miss
        return f"{path.name}: NOT unpacked: {type(error).__name__}: {error}"
    done.touch()
    return f"{path.name}: unpacked in {time.monotonic() - start:.1f} s"


def link_cuda(site: Path, libraries: Iterable[str]) -> int:
    """Link CUDA libraries of the machine's wheels where cuDF looks for them; return the number of links."""
    here, n_links = site / "nvidia" / "cu13" / "lib", 0
    here.mkdir(parents=True, exist_ok=True)
    for base in map(Path, filter(None, libraries)):
        if base.resolve() == site.resolve():
            continue
        for library in sorted(base.glob("nvidia/*/lib/*.so*")):
            if library.name.startswith(CUDA_LIBRARIES) and not os.path.lexists(here / library.name):
                (here / library.name).symlink_to(library.resolve())
                n_links += 1
    return n_links


def environment_of(site: Path) -> dict[str, str]:
    """Return an environment with the unpacked packages, tables and metrics, and caches that last between visits."""
    cache = site / ".cache"
    return {
        **os.environ,
        **toolkit_environment(site),
        "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT, ROOT / "kernels"))),
        "PYTHONUNBUFFERED": "1",
        "GPUPIPE_DATA": str(site / "data"),
        "GPUPIPE_CPU_METRICS": str(site / "cpu_metrics.json") if (site / "cpu_metrics.json").exists() else "",
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "CUPY_CACHE_DIR": str(cache / "cupy"),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "1000",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # else JAX reserves three quarters of the GPU memory
        "KVIKIO_COMPAT_MODE": "ON",  # no GPUDirect Storage
        "KVIKIO_NTHREADS": "8",
    }


if __name__ == "__main__":
    sys.exit(main())
