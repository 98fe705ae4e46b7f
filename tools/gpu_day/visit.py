"""One visit to the GPU machine: ``python3 -m tools.gpu_day.visit N --out DIR``, from the root of the checkout.

Unpacks .gpu/partN if it was carried, runs the `probes`, and runs the steps of `benchmarks.device` that the part makes
possible. Results are written to DIR as they become available. The exit code is that of the steps: 1 if one of them
failed or timed out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.gpu_day.toolkit import LIBRARY, toolkit_environment
from tools.gpu_day.unpack import CorruptPart, unpack

ROOT = Path(__file__).parents[2]
VISIT_SECONDS = 585  # of the 600 s limit of a command; the remaining time is for writing and returning the results
COUNTERS_SECONDS = 75
ABSENT_TABLES = "online_retail"  # see pack.TABLES
METRICS = (
    "gpu__time_duration.sum", "smsp__inst_executed.sum", "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "launch__registers_per_thread",
)  # fmt: skip
ONE_LAUNCH = "from benchmarks.device import program as p; p.run_program(p.twenty_columns(), 10_000_000, 'column-major')"


@dataclass(frozen=True)
class Visit:
    """Work of one visit.

    Attributes
    ----------
    steps, probes : tuple of str
        Names, in the order in which they run.
    counters : bool
        Whether to read the hardware counters of the interpreter, if Nsight Compute is installed.
    """

    steps: tuple[str, ...]
    probes: tuple[str, ...] = ()
    counters: bool = False


VISITS = {
    1: Visit(
        ("environment", "copy", "program", "kernels", "batches"),
        ("versions", "numba_kernel", "cupy_sorts_negative_nan_last", "xgboost_on_cupy"),
        counters=True,
    ),
    2: Visit(("end_to_end", "features", "keyed"), ("cudf_reads",)),
    3: Visit(("models", "suite", "networks")),
    4: Visit(("cluster", "accelerators")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a visit and return its exit code."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.gpu_day.visit", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("number", type=int, choices=list(VISITS))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--parts", type=Path, default=ROOT / ".gpu", metavar="DIR")
    parser.add_argument("--site", type=Path, default=Path(tempfile.gettempdir()) / "gpupipe-site", metavar="DIR",
                        help="folder for unpacked parts, kept between visits")  # fmt: skip
    parser.add_argument(
        "--seconds", type=int, default=VISIT_SECONDS, help="time limit of the visit (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    visit, out, site = VISITS[options.number], options.out.resolve(), options.site.resolve()
    out.mkdir(parents=True, exist_ok=True)
    part = options.parts / f"part{options.number}"
    if part.is_dir():
        try:
            _report(out, "\n".join(unpack(part, site, sys.path)))
        except CorruptPart as error:
            print(error, file=sys.stderr)
            return 1
    elif not (site / "sitecustomize.py").exists():
        print(f"nothing is unpacked in {site}: carry part1 to part{min(options.number, 3)} first", file=sys.stderr)
        return 1
    environment = environment_of(site)
    _report(out, _machine(environment, site))
    _run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(site)], environment, None, 60)
    if visit.probes:
        _run([sys.executable, "-m", "tools.gpu_day.probes", *visit.probes], environment, out / "machine.txt", 120)
    reserved = COUNTERS_SECONDS if visit.counters and shutil.which("ncu") else 0
    left = options.seconds - (time.monotonic() - began) - reserved
    steps = [
        sys.executable, "-m", "benchmarks.device", "--out", str(out), "--steps", ",".join(visit.steps),
        "--seconds", str(int(left)), "--skip-tests", ABSENT_TABLES,
    ]  # fmt: skip
    code = _run(steps, environment, None, left + 10)
    if reserved:
        _run(_counters(), environment, out / "counters.txt", COUNTERS_SECONDS)
    return code


def environment_of(site: Path) -> dict[str, str]:
    """Return an environment with the unpacked wheels, tables and metrics, and with caches that last between visits."""
    cache = site / ".cache"
    return {
        **os.environ,
        **toolkit_environment(site),
        "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT, ROOT / "kernels"))),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "GPUPIPE_DATA": str(site / "data"),
        "GPUPIPE_CPU_METRICS": str(site / "cpu_metrics.json"),
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "CUPY_CACHE_DIR": str(cache / "cupy"),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "1000",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # else JAX reserves three quarters of the GPU memory
        "KVIKIO_COMPAT_MODE": "ON",  # no GPUDirect Storage
        "KVIKIO_NTHREADS": "8",
    }


def _machine(environment: Mapping[str, str], site: Path) -> str:
    """Return a description of GPU, driver and toolkit."""
    query = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    smi = shutil.which("nvidia-smi")
    gpu = subprocess.run([smi, *query], capture_output=True, text=True, check=False).stdout.strip() if smi else ""
    lines = [gpu or "nvidia-smi: no GPU", f"CUDA_HOME={environment.get('CUDA_HOME', '')}"]
    if not (site / "nvvm" / LIBRARY).exists():
        lines.append("libnvvm not found: Numba cannot compile kernels; carry the part nvvm")
    return "\n".join(lines)


def _counters() -> list[str]:
    return [
        "ncu", "--kernel-name", "regex:interpret", "--launch-count", "1", "--metrics", ",".join(METRICS),
        sys.executable, "-c", ONE_LAUNCH,
    ]  # fmt: skip


def _report(out: Path, text: str) -> None:
    """Print `text`, and append it to machine.txt."""
    print(text, flush=True)
    with (out / "machine.txt").open("a", encoding="utf8") as file:
        file.write(text + "\n")


def _run(command: Sequence[str], environment: Mapping[str, str], log: Path | None, seconds: float) -> int:
    """Run a command in the checkout and append its output to `log`; return its exit code, or 124 if it timed out."""
    output = log.open("a+", encoding="utf8", errors="replace") if log else None
    start = output.seek(0, os.SEEK_END) if output else 0
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=dict(environment), stdout=output, stderr=output, check=False, timeout=seconds
        )
        code = done.returncode
    except subprocess.TimeoutExpired:
        print(f"timed out after {seconds:.0f} s: {' '.join(command[1:4])}", flush=True)
        code = 124
    if output is not None:
        output.seek(start)
        print(output.read(), flush=True)
        output.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
