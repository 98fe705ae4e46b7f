"""Commands whose streams, disk, memory or paths fail: the right exit code, never reported as a bug."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpupipe.cli import cli, main
from gpupipe.cli.errors import show_error

ROOT = Path(__file__).parents[2]


def full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def run_with(arguments: list[str], *, out: int | None = None, err: int | None = None, setup: str = "") -> Any:
    """Run a command with a shell's set-up: limits, closed descriptors."""
    script = f'{setup}\nexec "$@"'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "gpupipe", *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    stdout, stderr = (subprocess.PIPE if stream is None else stream for stream in (out, err))
    return subprocess.run(command, env=environment, text=True, timeout=120, check=False, stdout=stdout, stderr=stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["schema"], ["--help"], ["kernels", "--json"]])
def test_output_that_cannot_be_written_is_exit_3(arguments: list[str]) -> None:
    done = run_with(arguments, out=full())
    assert done.returncode == 3
    assert done.stderr.splitlines()[:2] == [
        "Does not fit: the disk is full, or its quota is exceeded",
        "  where: standard output",
    ]
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("closed", [True, False])
def test_a_run_with_closed_streams_completes(churn: Path, tmp_path: Path, closed: bool) -> None:
    run = ["run", str(churn), "--output", str(tmp_path / "r"), "--json", "--set", "report.enabled=false"]
    run += [
        "--set",
        "source.rows=500",
        "--set",
        "models=[gaussian_nb]",
        "--set",
        "source.target=Churn",
        "--set",
        "evaluate.importance=false",
    ]
    if closed:
        assert run_with(run, setup="exec 0<&- 1>&- 2>&-").returncode == 0
    else:
        assert run_with(run, out=full(), err=full()).returncode == 3
    assert (tmp_path / "r" / "metrics.json").is_file()


def test_a_name_that_is_not_unicode_is_shown_escaped(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    try:
        os.mkdir(folder + b"/caf\xe9")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    config = os.fsdecode(folder + b"/caf\xe9/") + "ł.yaml"
    Path(config).write_text("source: {generate: churn, target: Churn}\n")
    done = run_with(["check", "--no-data", config], setup="export PYTHONIOENCODING=latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"OK {tmp_path}/caf\\udce9/\\u0142.yaml" in done.stdout


def test_a_lack_of_address_space_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("source: {path: t.csv, target: y}\n")
    # The machine decides which allocation fails first; a library aborts if that is inside of it.
    tried = (run_with(["plan", str(config)], setup=f"ulimit -v {limit}") for limit in range(300_000, 360_000, 10_000))
    done = next(done for done in tried if done.returncode == 3)
    assert "Does not fit: out of memory" in done.stderr and "`ulimit -v`" in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OSError(errno.EROFS, "Read-only file system", "/mnt/x"), 2, "where: /mnt/x"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000), 2, "File name too long"),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), 2, "Permission denied"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 3, "its quota is exceeded"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "ulimit -n"),
        (OSError("[Errno 28] Error writing bytes. Detail: No space left on device"), 3, "the disk is full"),
        (RuntimeError("can't start new thread"), 3, "ulimit -u"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), 3, "start another thread or process"),
        (ImportError("libx.so: failed to map segment from shared object"), 3, "out of memory"),
        (MemoryError(), 3, "out of memory"),
        (OSError(errno.EIO, "Input/output error", "/mnt/x"), 5, "network share failed"),
        (RuntimeError("Could not determine home directory."), 2, "set HOME"),
        (ValueError("ZIP does not support timestamps before 1980"), 2, "set the clock"),
        (ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow"), 2, "needs the library pyarrow"),
        (ModuleNotFoundError("No module named 'x'", name="uvicorn.config"), 2, "pip install 'gpupipe[serve]'"),
        (ModuleNotFoundError("No module named 'gpupipe.x'", name="gpupipe.x"), 1, "a bug in gpupipe"),
        (ImportError("cannot import name 'x'"), 1, "a bug in gpupipe"),
        (RuntimeError("no"), 1, "a bug in gpupipe"),
    ],
)
def test_system_errors_are_not_reported_as_bugs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, says: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    assert main(["schema"]) == code
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("limit", "code"), [(400_000 << 10, 3), (resource.RLIM_INFINITY, 1)])
def test_native_code_that_fails_without_an_exception_lacks_memory_where_it_is_limited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: int, code: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda of: (limit, limit))
    assert show_error(SystemError("error return without exception set"), debug=False) == code
    assert ("`ulimit -v`" in capsys.readouterr().err) == (code == 3)
