"""Faults during runs in separate processes: the old result stays, or the new one is complete."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow.csv import write_csv

from benchmarks.faults.runs import ReferenceRun, problems_of_error
from gpupipe.cli import main
from gpupipe.cli.interrupts import ImmediateExit, Interrupts
from gpupipe.errors import StoppedError
from gpupipe.io.file_formats import load_generator

SMALL = """\
source: {generate: churn, rows: 600, target: Churn, positive: "Yes", drop: [customerID]}
features: [{impute: "@numeric"}]
models: [xgboost: {n_estimators: %d}]
evaluate: {importance: false}
report: {enabled: false}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ReferenceRun:
    """An undisturbed run, and its configuration."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(SMALL % 5)
    assert main(["run", str(folder / "small.yaml"), "--output", str(folder / "run"), "--quiet"]) == 0
    return ReferenceRun(folder / "small.yaml", folder / "run", 0.0)


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """Limit the size of the files that this process writes: the kernel refuses more, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python does not see that a module was cut short
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before


def test_a_full_disk_is_exit_code_3_and_the_earlier_run_stays(
    small: ReferenceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = small.place_old(tmp_path / "run")
    command = ["run", str(small.config), "--output", str(tmp_path / "run"), "--quiet"]
    with files_of_at_most(5000):  # enough space for the log and the features, not for a model
        code = main(command)
    said = capsys.readouterr().err
    assert problems_of_error(code, said, [3]) == []
    assert "the disk is full, or its quota is exceeded" in said and "--resume" in said
    assert small.left(tmp_path / "run", old) == ("old", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".checkpoints", "run"]
    assert main([*command, "--resume"]) == 0
    assert small.left(tmp_path / "run", old) == ("new", [])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_predictions_that_do_not_fit_leave_no_file(
    small: ReferenceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    write_csv(load_generator("churn")(300, 0, None), rows)
    command = ["predict", str(small.run), str(rows), "-o", str(tmp_path / "out.csv")]
    with files_of_at_most(1000):
        assert main(command) == 3
    assert "the disk is full" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def run_until(text: str, config: Path, output: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a run; return it once it has printed a text."""
    command = [sys.executable, "-m", "gpupipe", "run", str(config), "--output", str(output)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = ""
    while text not in said and (line := process.stderr.readline()):
        said += line
    return process, said


def test_a_signal_stops_a_run_at_a_safe_point_and_a_second_one_ends_it(tmp_path: Path) -> None:
    # Practically endless: only a signal ends this run.
    config = tmp_path / "endless.yaml"
    config.write_text(SMALL % 10_000_000)
    process, _ = run_until("✓ features", config, tmp_path / "run")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 143
    assert "again to stop now" in said and "Stopped: the run was stopped by SIGTERM" in said
    assert "--resume" in said and "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir() if path != config] == [".checkpoints"]


NATIVE = """\
import sys
from gpupipe.cli.interrupts import stopped_by_signals
from gpupipe.timeline.safe_points import StopSignal
with stopped_by_signals(StopSignal(), lambda: None):
    print("ready", flush=True)
    sum(range(10**14))  # C code that never lets other threads run
"""


def caught_signals(process: subprocess.Popen[str]) -> int:
    """Return the mask of the signals that a process has handlers for."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_second_signal_ends_a_run_in_native_code_that_never_returns() -> None:
    with subprocess.Popen([sys.executable, "-c", NATIVE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 60
            while caught_signals(process) >> (signal.SIGTERM - 1) & 1:  # until the first one has been delivered
                assert time.monotonic() < deadline, "the handler stays in place for a second signal"
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == -signal.SIGTERM
        finally:
            process.kill()


class Heard:
    """The ends of what signals are heard by."""

    def __init__(self) -> None:
        self.told = 0
        self.interrupts = Interrupts(self.tell)

    def tell(self) -> None:
        self.told += 1

    def hear(self, *numbers: int) -> None:
        """Hear some signals."""
        import socket

        here, there = socket.socketpair()
        with here, there:
            there.send(bytes(numbers))
            there.shutdown(socket.SHUT_WR)
            self.interrupts.listen(here)


def test_the_first_signal_requests_a_stop_and_is_reported_once() -> None:
    heard = Heard()
    heard.interrupts.check("before anything")
    heard.hear(signal.SIGINT)
    heard.interrupts.handle(signal.SIGINT, None)
    with pytest.raises(StoppedError, match="by Ctrl-C") as caught:
        heard.interrupts.check("before train a")
    assert (caught.value.exit_code, caught.value.where, heard.told) == (130, "before train a", 1)


def test_the_second_signal_ends_the_run_even_if_both_are_handled_at_once() -> None:
    heard = Heard()
    heard.interrupts.handle(signal.SIGTERM, None)
    with pytest.raises(ImmediateExit) as caught:
        heard.interrupts.handle(signal.SIGTERM, None)
    assert caught.value.exit_code == 143
    late = Heard()
    late.interrupts.end()  # otherwise the listener would end this process
    late.hear(signal.SIGINT, signal.SIGINT)
    assert late.told == 1
