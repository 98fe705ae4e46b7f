"""Tests of child processes: limits, exits, and imports."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpupipe
from gpupipe.children import (
    Child,
    ChildError,
    ChildLimits,
    child_environment,
    exit_error,
    private_environment,
    python_command,
)

HANDLER = """
import mmap, os, resource, signal, sys, time
from gpupipe.children import serve

def handle(message):
    what, _, detail = message.decode().partition(" ")
    if what == "echo":
        return detail.encode()
    if what == "pid":
        return str(os.getpid()).encode()
    if what == "take":
        return str(len(bytearray(int(detail)))).encode()
    if what == "map":
        with open(sys.executable, "rb") as file:
            return str(len(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))).encode()
    if what == "signal":
        print("last words")
        os.kill(os.getpid(), int(detail))
    if what == "exit":
        os._exit(int(detail))
    if what == "raise":
        raise ValueError("no such thing")
    if what == "abort":
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\\n")
        os.abort()
    if what == "hang":
        print("started", os.getpid(), flush=True)
        import re
        re.match("(a+)+$", "a" * 60 + "b")  # holds the GIL
    if what == "flood":
        for _ in range(300):
            os.write(1, b"x" * 65536)
        print("\\nthe end", flush=True)
        os._exit(3)
    if what == "raw":
        os.write(int(sys.argv[1]), bytes.fromhex(detail))
        time.sleep(60)
    if what == "core":
        return str(resource.getrlimit(resource.RLIMIT_CORE)[1]).encode()
    if what == "stdin":
        return sys.stdin.read().encode()

if __name__ == "__main__":
    serve(handle)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    (tmp_path / "gpupipe_handler.py").write_text(HANDLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Child("gpupipe_handler", ChildLimits(seconds=60, memory_bytes=256 << 20, reply_bytes=1 << 20)) as child:
        yield child


def ended(child: Child, message: bytes, seconds: float | None = None) -> ChildError:
    with pytest.raises(ChildError) as caught:
        child.request(message, seconds)
    return caught.value


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_child_replies_to_many_requests_and_ends_on_close(child: Child) -> None:
    pid = int(child.request(b"pid"))
    assert os.getpgid(pid) == pid != os.getpgrp()
    long = os.urandom(300_000).hex().encode()  # more than a socket holds, in both directions
    assert child.request(b"echo " + long) == long
    assert child.request(b"stdin") == b""
    assert child.request(b"core") == b"0"
    with ThreadPoolExecutor(4) as threads:
        requests = [str(i).encode() for i in range(40)]
        assert list(threads.map(lambda text: child.request(b"echo " + text), requests)) == requests
    assert int(child.request(b"pid")) == pid
    child.close()
    with pytest.raises(ChildProcessError):  # no zombie
        os.waitpid(pid, 0)
    assert int(child.request(b"pid")) != pid


@pytest.mark.parametrize(
    ("message", "cause", "how"),
    [
        (b"signal 11", "crash", "crashed (SIGSEGV)"),
        (b"signal 6", "crash", "crashed (SIGABRT)"),
        (b"signal 9", "memory", "was killed (SIGKILL), probably for lack of memory"),
        (b"abort", "memory", "ran out of memory (limit: 0.2 GiB)"),
        (b"exit 0", "exit", "exited with code 0"),
        (b"flood", "exit", "exited with code 3"),
        (b"raise", "exit", "exited with code 1"),
        (
            b"raw 02ffffffffffffffff",
            "reply",
            "sent a reply of 18,446,744,073,709,551,615 bytes; expected at most 1,048,576",
        ),
        (b"raw 070000000000000000", "reply", "sent a message of unknown kind 7"),
        (b"raw 02000000000000000141ff", "reply", "sent more than one reply"),
    ],
)
def test_every_exit_is_reported_and_the_next_request_starts_another_child(
    child: Child, message: bytes, cause: str, how: str
) -> None:
    error = ended(child, message)
    assert (error.cause, error.how) == (cause, how)
    assert child.request(b"echo again") == b"again"


def test_the_error_ends_with_the_last_line_of_output(child: Child) -> None:
    assert str(ended(child, b"raise")) == "a child process exited with code 1: ValueError: no such thing"
    assert ended(child, b"flood").output.endswith("the end")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_memory_is_limited_and_mapped_files_are_not_counted(child: Child) -> None:
    assert child.request(b"take 100000000") == b"100000000"
    assert int(child.request(b"map")) > 0
    error = ended(child, b"take 300000000")
    assert (error.cause, error.how) == ("memory", "ran out of memory (limit: 0.2 GiB)")


def test_a_child_that_hangs_in_native_code_is_killed(child: Child) -> None:
    error = ended(child, b"hang", seconds=1.0)
    assert (error.cause, error.how) == ("time", "did not finish within 1 s")
    assert not is_alive(int(error.output.split()[1]))


def test_a_failed_import_is_not_blamed_on_the_request() -> None:
    with Child("gpupipe.no_such_module", ChildLimits(seconds=5)) as child:
        error = ended(child, b"echo")
    assert error.cause == "start"
    assert "No module named" in str(error)


PARENT = """
import os, sys, threading
from gpupipe.children import Child, ChildLimits

child = Child("gpupipe_handler", ChildLimits(seconds=600))
print(child.request(b"pid").decode(), flush=True)
threading.Thread(target=child.request, args=(b"hang",), daemon=True).start()
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a timer ends it")
def test_a_child_ends_with_a_killed_parent(child: Child, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen(
        python_command(str(tmp_path / "parent.py")),
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < deadline, "the child is still running"
        time.sleep(0.02)


LAST = """
import os, sys, threading
from pathlib import Path
from gpupipe.children import serve

def finish():
    threading.Event().wait(float(os.environ["WORK"]))
    Path(os.environ["LAST"]).write_text("done")

serve(lambda message: message, finish)
"""
QUIT = """
import os, sys
from gpupipe.children import Child, ChildLimits, child as module

module.EXIT_SECONDS = float(os.environ["PATIENCE"])
child = Child("gpupipe_last", ChildLimits(seconds=60), outlives=True)
child.request(b"")
"""


@pytest.mark.parametrize(
    ("parent", "work", "patience"),
    [("", 0.2, 0.01), ("os._exit(0)", 0.2, 0.01), ("os.kill(os.getpid(), 9)", 0.2, 0.01), ("child.close()", 0.0, 30.0)],
)
def test_a_child_that_outlives_its_parent_finishes_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: str, work: float, patience: float
) -> None:
    (tmp_path / "gpupipe_last.py").write_text(LAST)
    (tmp_path / "parent.py").write_text(f"{QUIT}{parent}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = tmp_path / "done"
    settings = {"LAST": str(done), "WORK": str(work), "PATIENCE": str(patience)}
    subprocess.run(python_command(str(tmp_path / "parent.py")), env=child_environment(settings), check=False)
    deadline = time.monotonic() + 30
    while not (done.exists() and done.read_text()):
        assert time.monotonic() < deadline, "its last work is not done"
        time.sleep(0.02)


def test_a_request_that_waits_for_a_killed_child_raises(child: Child) -> None:
    pid = int(child.request(b"pid"))
    threading.Timer(0.2, child.kill).start()
    assert ended(child, b"hang").cause == "memory"
    assert not is_alive(pid)


def test_ctrl_c_ends_the_child_and_is_raised(child: Child) -> None:
    pid = int(child.request(b"pid"))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        child.request(b"hang")
    assert not is_alive(pid)


@pytest.mark.filterwarnings("ignore:.*fork")  # earlier tests import libraries with threads
def test_a_forked_copy_starts_its_own_child(child: Child) -> None:
    pid = child.request(b"pid")
    read, write = os.pipe()
    if (copy := os.fork()) == 0:
        os.write(write, child.request(b"pid"))
        child.close()
        os._exit(0)
    os.waitpid(copy, 0)
    assert os.read(read, 100) not in (b"", pid)
    assert child.request(b"pid") == pid
    for fd in (read, write):
        os.close(fd)


WHERE = "import gpupipe, gpupipe_kernels, json, sys; print(json.dumps([gpupipe.__file__, json.__file__, sys.path]))"


@pytest.mark.parametrize("entries", [[""], ["."], ["{here}"], ["{here}/../{name}"]])
def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[str]
) -> None:
    for name in ("json", "gpupipe", "gpupipe_kernels"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    ours = [entry.format(here=tmp_path, name=tmp_path.name) for entry in entries]
    monkeypatch.setattr(sys, "path", [*ours, *sys.path])
    done = subprocess.run(
        python_command("-c", WHERE), env=child_environment(), capture_output=True, text=True, check=True
    )
    assert gpupipe.__file__ in done.stdout
    assert str(tmp_path) not in done.stdout


def test_a_checkout_may_be_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(gpupipe.__file__).parents[1]
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", [str(root), *(path for path in sys.path if path != str(root))])
    assert str(root) in child_environment()["PYTHONPATH"].split(os.pathsep)


def test_a_private_child_gets_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; from gpupipe.children import serve; serve(lambda _: repr(sorted(os.environ)).encode())"
    (tmp_path / "environment_handler.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    secrets = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGPASSWORD", "http_proxy", "MLFLOW_TRACKING_PASSWORD")
    for name in (*secrets, "OMP_NUM_THREADS", "GPUPIPE_THREADS"):
        monkeypatch.setenv(name, "1")
    with Child("environment_handler", ChildLimits(seconds=60), {"ADDED": "1"}, private=True) as child:
        names = ast.literal_eval(child.request(b"").decode())
    assert not {*secrets} & {*names}
    assert {"PATH", "PYTHONPATH", "OMP_NUM_THREADS", "GPUPIPE_THREADS", "ADDED"} <= {*names}


@pytest.mark.parametrize(
    ("code", "cause", "how"),
    [
        (3, "exit", "exited with code 3"),
        (0, "exit", "exited with code 0"),
        (-signal.SIGSEGV, "crash", "crashed (SIGSEGV)"),
        (-64_000, "crash", "crashed (signal 64000)"),
        (-signal.SIGALRM, "time", "did not finish in time"),
        (-signal.SIGKILL, "memory", "was killed (SIGKILL), probably for lack of memory"),
    ],
)
def test_the_end_of_a_process_has_a_cause(code: int, cause: str, how: str) -> None:
    error = exit_error(code, "last line")
    assert (error.cause, error.how, error.output) == (cause, how, "last line")


def test_a_private_environment_has_settings_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"GPUPIPE_THREADS": "2", "GPUPIPE_FORCE_CPU": "1", "GPUPIPE_CACHE_LIMIT": "1GiB", "OMP_NUM_THREADS": "2"}
    for name in (*settings, "GPUPIPE_TOKEN", "GPUPIPE_DATABASE_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, settings.get(name, "secret"))
    found = private_environment({"OWN": "value"})
    assert "secret" not in found.values() and {**settings, "OWN": "value"}.items() <= found.items()
