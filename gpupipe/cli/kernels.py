"""Command ``gpupipe kernels``: contracts of the kernels, their tests and compilation."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Any

import click

from gpupipe.children import child_environment, python_command
from gpupipe.cli.options import emit, json_options
from gpupipe.cli.tables import make_table, print_table
from gpupipe.report.text import last_lines

if TYPE_CHECKING:
    import rich.table

    from gpupipe_kernels.contract import KernelDeclaration

PIPE_WIDTH = 160  # columns of a table without a terminal


@click.group(invoke_without_command=True)
@json_options
@click.option("--machine-code", is_flag=True, help="Compile every device loop for several GPU types; needs no GPU.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, output: Path | None, machine_code: bool) -> None:
    """List the kernels with their signature, null handling and tolerance.

    With --machine-code, list the registers, spills, shared memory and occupancy of each device loop instead, as
    NVIDIA's assembler reports them.
    """
    if ctx.invoked_subcommand is not None:
        if as_json or output or machine_code:
            what = "--json, --output and --machine-code cannot be combined with"
            raise click.UsageError(f"{what} {ctx.invoked_subcommand}")
        return
    document: Any = _machine_code() if machine_code else _declarations()
    table = _machine_code_table if machine_code else _list
    emit(document, as_json, output, lambda: print_table(table(document), pipe_width=PIPE_WIDTH))


@command.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--rows", type=click.IntRange(min=2), default=10_000, show_default=True, help="Rows of the largest input."
)
@click.option("--seed", type=click.IntRange(min=0), help="Random seed of the inputs. [default: a new one, printed]")
def fuzz(names: tuple[str, ...], rows: int, seed: int | None) -> None:
    """Compare kernels with their references.

    Each named kernel (default: all) runs on the CPU and on the GPU. The inputs have sizes around that of a block,
    nulls, infinities, -0.0, the limits of integers, and rows that are not contiguous. Without a GPU the device code
    runs in Numba's simulator on few rows, which finds wrong indices and wrong results but no races.

    \b
    Exit codes:
      0  all kernels agree with their references
      1  a kernel differs
    """
    _refuse_unknown(names)
    is_there, why = _gpu()
    click.echo(f"GPU: {why}" if is_there else f"no GPU ({why}): device code runs in Numba's simulator")
    if seed is None:
        seed = randbelow(2**31)
        click.echo(f"inputs: --seed {seed}")
    failed = False
    for outcome in _outcomes(names, rows, seed, simulated=not is_there):
        failed |= bool(outcome["cpu"]["failure"] or outcome["device"]["failure"])
        click.echo(_line(outcome))
    if failed:
        raise click.exceptions.Exit(1)


@command.command
def warm() -> None:
    """Compile all kernels ahead of time.

    They are compiled for the CPU, and for the GPU if there is one, and cached on disk.
    """
    from gpupipe.errors import ConfigError
    from gpupipe_kernels.code_cache import PRIVATE_FOLDER, cache_folder, can_keep, exposure
    from gpupipe_kernels.proof.warm_up import warm_all

    if problem := exposure():
        raise ConfigError(f"unsafe folder for compiled code: {problem}", where=str(cache_folder()), fix=PRIVATE_FOLDER)
    if not can_keep():
        fix = "set NUMBA_CACHE_DIR to a writable folder"
        raise ConfigError("the folder for compiled code is not writable", where=str(cache_folder()), fix=fix)
    total, n_compiled = 0.0, 0
    for done in warm_all(with_device=_gpu()[0]):
        made = f"compiled {done.n_compiled}" if done.n_compiled else "in the cache"
        click.echo(f"{done.name:<28} {done.seconds:8.2f} s  {made}")
        total, n_compiled = total + done.seconds, n_compiled + done.n_compiled
    what = f"compiled {n_compiled} loops" if n_compiled else "all loops are in the cache"
    click.echo(f"{what} ({total:.1f} s): {cache_folder()}")


def _gpu() -> tuple[bool, str]:
    """Return whether kernels can run on a GPU here, and its name or the reason why not."""
    from gpupipe.backends import device_report

    gpu = device_report().gpu
    if gpu.usable and find_spec("cupy") is None:
        return False, f"{gpu.reason}; CuPy is not installed"
    return gpu.usable, gpu.reason


def _refuse_unknown(names: Sequence[str]) -> None:
    from gpupipe.errors import ConfigError, did_you_mean
    from gpupipe_kernels.catalog import kernels

    for name in names:
        if name not in kernels():
            fix = did_you_mean(name, kernels()) or f"the kernels are {', '.join(kernels())}"
            raise ConfigError(f"unknown kernel {name!r}", fix=fix)


def _declarations() -> list[dict[str, Any]]:
    from gpupipe_kernels.catalog import kernels

    return [_declaration(kernel) for kernel in kernels().values()]


def _declaration(kernel: KernelDeclaration) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "summary": kernel.summary,
        "signature": kernel.signature,
        "nulls": kernel.nulls,
        "rtol": kernel.rtol,
        "atol": kernel.atol,
        "device_loops": [loop.name for loop in kernel.device],
    }


def _list(declarations: Sequence[Mapping[str, Any]]) -> rich.table.Table:
    names = ("kernel", "nulls", "tolerance")
    table = make_table(names, (), folded=names)
    for row in declarations:
        name = row["signature"]
        table.add_row(f"{name}\n  {row['summary']}", row["nulls"], _tolerance(row["rtol"], row["atol"]))
    return table


def _tolerance(rtol: float, atol: float) -> str:
    parts = [f"{atol:.0e}" if atol else "", f"{rtol:.0e} × |x|" if rtol else ""]
    return " + ".join(filter(None, parts)) or "exact"


def _machine_code() -> Any:
    """Return the document that `gpupipe_kernels.proof.machine_code` prints."""
    from gpupipe.errors import ConfigError, GpupipeError
    from gpupipe_kernels.proof.device_compilers import INSTALL, missing_compiler

    if missing := missing_compiler():
        raise ConfigError(f"cannot compile the device loops: {missing}", fix=INSTALL)
    command = python_command("-m", "gpupipe_kernels.proof.machine_code")
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GpupipeError(last_lines(done.stderr), where="gpupipe_kernels.proof.machine_code")
    return json.loads(done.stdout)


def _machine_code_table(document: Mapping[str, Any]) -> rich.table.Table:
    from gpupipe_kernels.device.binaries import ARCHITECTURES

    names = ("device loop", *ARCHITECTURES, "spills", "stack", "shared", "float64")
    table = make_table(names, (), folded=names)
    for name, row in document["loops"].items():
        cells = [f"{row[a]['registers']} · {row[a]['occupancy']:.0%}" for a in ARCHITECTURES]
        fields = ("spill_stores", "stack", "shared", "f64")
        table.add_row(name, *cells, *(str(max(code[field] for code in row.values())) for field in fields))
    table.caption = "registers per thread · occupancy of a multiprocessor; bytes; float64 instructions"
    return table


def _outcomes(names: Sequence[str], rows: int, seed: int, simulated: bool) -> Iterator[dict[str, Any]]:
    """Yield the results of the fuzzer, run in a child process because Numba fixes its device on import."""
    from gpupipe.errors import GpupipeError

    environment = child_environment({"NUMBA_ENABLE_CUDASIM": str(int(simulated))})
    command = python_command("-m", "gpupipe_kernels.proof.fuzz", *names, f"--rows={rows}", f"--seed={seed}")
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
        if process.wait() not in (0, 1) or said.seek(0, os.SEEK_END):
            said.seek(0)
            raise GpupipeError(last_lines(said.read()), where=" ".join(command[1:]))


def _line(outcome: Mapping[str, Any]) -> str:
    failures = [f"\n  {side}: {outcome[side]['failure']}" for side in ("cpu", "device") if outcome[side]["failure"]]
    mark = "FAILED" if failures else "ok"
    cpu, device = _figures(outcome["cpu"]), _figures(outcome["device"])
    return f"{mark:<6} {outcome['kernel']:<24} cpu {cpu} {outcome['where']} {device}".rstrip() + "".join(failures)


def _figures(side: Mapping[str, Any]) -> str:
    apart = "" if side["strides"] == "taken" else ", refuses strides"
    error = f"error {side['max_error']:.1e}, {side['share']:.0%} of tolerance" if side["max_error"] else "exact"
    return f"{side['cases']:>3} cases, {error + apart:<32}"
