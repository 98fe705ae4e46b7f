"""Servers of untrusted models: only worker processes with limits open them, and a bad one ends with one message."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe import Model
from gpupipe.errors import ArtifactError, GpupipeError
from gpupipe.inference.untrusted import process as untrusted_process
from gpupipe.inference.untrusted.limits import UntrustedLimits
from gpupipe.serve import supervisor, time_limit, worker
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.units import GIB, MIB
from tests.pipeline.test_untrusted import InProcessChild
from tests.serve.test_processes import SECONDS, Rows, ask, children_of, served, wait_until

LIMITS = UntrustedLimits(GIB, 60.0)

# A worker whose model does harm when it is opened.
HOSTILE_WORKER = """\
import ctypes, sys, time
from gpupipe.serve.child import main
from gpupipe.serve.served_model import ServedModel

def harm(*arguments):
    end = time.monotonic() + 60
    while {harm!r} == "hang":
        assert time.monotonic() < end
    if {harm!r} == "allocate":
        return bytearray(2 << 30)
    ctypes.string_at(0)  # "crash"

ServedModel.load = harm
if __name__ == "__main__":
    sys.exit(main())
"""


def fork(work: Callable[[], Any]) -> int:
    """Return the exit code of a forked child that does some work; negative: its signal."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hang() -> None:
    end = monotonic() + SECONDS
    while monotonic() < end:
        pass


def hang_in_a_block() -> None:
    with time_limit.time_limit(2 * SECONDS), time_limit.time_limit(0.01), time_limit.time_limit(None):
        hang()


def hang_in_the_event_loop() -> None:
    async def hang_in_a_turn() -> None:
        watch = asyncio.create_task(time_limit.watch_event_loop(0.01))
        await asyncio.sleep(0)
        hang()
        watch.cancel()

    asyncio.run(hang_in_a_turn())


@pytest.mark.parametrize("work", [hang_in_a_block, hang_in_the_event_loop])
def test_a_process_that_exceeds_the_time_limit_ends(work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "TURN_SECONDS", 0.01)
    assert fork(work) == -signal.SIGALRM


def test_a_process_within_its_time_limits_goes_on() -> None:
    def left() -> float:
        return signal.getitimer(signal.ITIMER_REAL)[0]

    with time_limit.time_limit(200):
        with time_limit.time_limit(300):
            assert 0 < left() <= 200
        with pytest.raises(ZeroDivisionError), time_limit.time_limit(100):
            assert 0 < left() <= 100
            raise ZeroDivisionError
        assert 100 < left() <= 200
    assert left() == 0


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("hang", r"the untrusted model exceeded its limit of 0\.5 s\n(.|\n)*--limit time="),
        ("allocate", r"the untrusted model exceeded its memory limit of 0\.50 GiB\n(.|\n)*--limit memory="),
        ("crash", r"the child process of the untrusted model crashed \(SIGSEGV\)\n(.|\n)*do not use this model"),
    ],
)
def test_a_model_that_does_harm_when_it_is_opened_ends_the_command(
    harm: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile_worker.py").write_text(HOSTILE_WORKER.format(harm=harm))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(supervisor, "CHILD", "hostile_worker")
    processes: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    limits = UntrustedLimits(512 * MIB, 0.5 if harm == "hang" else 60.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = supervisor.Supervisor(ServeSettings("a/model", limits=limits), listener, lambda: None)
        with pytest.raises(GpupipeError, match=message) as caught:
            server.run()
    assert caught.value.exit_code == 5 and "where: a/model\n" in str(caught.value)
    assert processes and all(process.returncode is not None for process in processes)


def test_a_new_model_is_tried_in_another_process_first(
    run_folder: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServeSettings(str(run_folder), limits=LIMITS)
    (tmp_path / "crashing_worker.py").write_text("import os\nos.abort()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(untrusted_process, "WORKER", "crashing_worker")
        patch.setattr(ServedModel, "load", lambda *arguments: pytest.fail("opened in this process"))
        with pytest.raises(GpupipeError, match=r"crashed \(SIGABRT\)"):
            worker.load_model(settings, "m", True)
    monkeypatch.setattr(untrusted_process, "Child", InProcessChild)
    assert worker.load_model(settings, "m", True).version == model.manifest["manifest_sha256"][:12]
    monkeypatch.setattr(ServedModel, "load", lambda *arguments: type("Other", (), {"scorer": OTHER}))
    with pytest.raises(ArtifactError, match="was replaced while it was loaded"):
        worker.load_model(settings, "m", False)


OTHER = type("OtherScorer", (), {"manifest": {"manifest_sha256": "0" * 64}})


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker processes in /proc")
def test_a_server_of_an_untrusted_model_answers_as_any_other(
    run_folder: Path, model: Model, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPIPE_TOKEN", "quartz-heron-17")
    monkeypatch.setenv("OTHER_SECRET", "quartz-heron-17")
    link = tmp_path / "current"
    link.symlink_to(run_folder)
    head = {"Authorization": "Bearer quartz-heron-17"}
    options = ("--untrusted", "--limit", "memory=1GiB", "--limit", "time=60s", "--reload-interval", "50ms")
    with served(link, *options) as (process, port):
        (worker,) = children_of(process)
        assert b"quartz" not in Path(f"/proc/{worker}/environ").read_bytes()
        assert b"quartz" not in Path(f"/proc/{worker}/cmdline").read_bytes()
        limit = next(line for line in Path(f"/proc/{worker}/limits").read_text().splitlines() if "data size" in line)
        assert GIB <= int(limit.split()[3]) < 2 * GIB
        assert ask(port, "/predict", rows[2])["code"] == "unauthorized"
        expected = model.scorer().predict_proba(rows[2])[1]
        assert ask(port, "/predict", rows[2], head)["probability_yes"] == expected
        explained = ask(port, "/predict?explain=5", rows[2], head)["explanation"]
        assert explained["margin"] == model.explain([rows[2]]).margins[0]
        assert ask(port, "/drift", None, head)["version"] == model.manifest["manifest_sha256"][:12]

        os.kill(worker, signal.SIGSEGV)
        wait_until(lambda: worker not in children_of(process))
        assert ask(port, "/predict", rows[2], head)["probability_yes"] == expected

        (tmp_path / "broken").mkdir()
        for file in (run_folder / "model").iterdir():
            (tmp_path / "broken" / file.name).write_bytes(file.read_bytes())
        (tmp_path / "broken" / "learned.json").write_text("{}")
        (tmp_path / "next").symlink_to(tmp_path / "broken")
        (tmp_path / "next").replace(link)
        wait_until(lambda: 'reloads_total{result="refused"} 1' in ask(port, "/metrics", None, head))
        assert ask(port, "/predict", rows[2], head)["probability_yes"] == expected
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS)
        assert process.returncode == 143
    assert "ended and is restarted: crashed (SIGSEGV)\n" in log
