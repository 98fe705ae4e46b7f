"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gpupipe.backends import device_report, probe
from tests.absent_libraries import AbsentLibraries, write_skipped
from tests.examples import draw_all
from tests.hostile_modules import imported_modules, write_hostile_modules
from tests.markers import LEFT_OUT, add_markers, is_left_out
from tests.nightly import Nightly
from tests.records import Recorder, WithoutPassed
from tests.seeds import VARIABLE, choose_seed, kernel_seed

# Profiles for --hypothesis-profile; see tests/examples.py.
settings.register_profile("fast", max_examples=10, deadline=None, database=None)
settings.register_profile("thorough", max_examples=1000, deadline=None, database=None, print_blob=True)

# Set this before OpenMP is loaded, as the backend does: idle threads that spin slow down tests on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Processes of pytest-xdist share the cores: two threads in each wait for each other. Tests of code for several threads
# choose their number.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("GPUPIPE_THREADS", "1")

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    from tests import simulator

    simulator.install()

# A shell's background jobs ignore interrupts, and so do their children, but tests send real interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The product's reader, except for files whose names request another behaviour.
STRANGE_READER = """
import os, pickle, signal
from gpupipe.children import serve
from gpupipe.io.isolated_reader import answer

def strange(message):
    name = os.path.basename(pickle.loads(message)[1].path)
    with open({log!r}, "a") as log:
        log.write(f"{{os.getpid()}} {{name}}\\n")
    if name.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("exit"):
        os._exit(0)
    if name.startswith("hang"):
        signal.pause()
    if name.startswith("other"):
        return b"read /etc/passwd"
    return answer(message)

if __name__ == "__main__":
    serve(strange)
"""


@pytest.fixture(scope="session")
def data_dir(pytestconfig: pytest.Config) -> Path:
    """Return the folder of public tables; skip without it, or fail where ``--require-gpu`` asks for all evidence."""
    end = pytest.fail if pytestconfig.getoption("--require-gpu") else pytest.skip
    folder = os.environ.get("GPUPIPE_DATA", "")
    if not folder:
        end("GPUPIPE_DATA is not set: the public tables are not there")
    if not Path(folder).is_dir():
        end(f"GPUPIPE_DATA={folder} is not a folder")
    return Path(folder).resolve()


@pytest.fixture
def hostile_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a working directory with modules that gpupipe's processes must not import."""
    folder = tmp_path_factory.mktemp("hostile")
    write_hostile_modules(folder)
    yield folder
    assert imported_modules(folder) == []


@pytest.fixture
def strange_reader(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a reader that crashes on ``crash.csv`` for isolated files; return the log of its requests."""
    folder = tmp_path_factory.mktemp("reader")
    log = folder / "asked"
    (folder / "gpupipe_strange_reader.py").write_text(STRANGE_READER.format(log=str(log)))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("gpupipe.io.isolation.MODULE", "gpupipe_strange_reader")
    return log


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="fail the tests that need a GPU where there is none")
    parser.addoption("--nightly", action="store_true", help="run the tests that CI runs once a day, too")
    parser.addoption(
        "--since",
        metavar="COMMIT",
        help="run those of them whose files changed since a commit, instead of that in tests/nightly.txt",
    )
    parser.addoption("--record", metavar="FILE", help="record what passed, and list the tests that take more than 2 s")
    parser.addoption("--without-passed", metavar="FILE", help="do not run what passed in a recorded run; count it")
    parser.addoption(
        "--fast",
        action="store_true",
        help="run what takes no time: no test that is slow or needs processes, a cluster, public tables or a GPU; "
        "the first and the last case of parametrised tests; few examples of Hypothesis",
    )


def pytest_configure(config: pytest.Config) -> None:
    choose_seed()
    if config.getoption("--nightly"):
        draw_all()
    config.pluginmanager.register(AbsentLibraries())
    config.pluginmanager.register(Nightly(config))
    if file := config.getoption("--without-passed"):
        config.pluginmanager.register(WithoutPassed(Path(file)))
    if (file := config.getoption("--record")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(file)))
    if config.getoption("--fast"):
        settings.load_profile("fast")


@pytest.hookimpl(trylast=True)  # after the reporter's own letter
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print the name and the reason of a failure in CI at once: a run that is ended early prints no summary."""
    if report.failed and os.environ.get("CI") and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        print(f"\nFAILED {report.nodeid} ({report.when}): {crash or report.longrepr}", flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_skipped(terminalreporter)


def pytest_report_header() -> str:
    return f"inputs of kernels: {VARIABLE}={kernel_seed()}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip importing modules whose tests are all deselected."""
    return True if config.getoption("--fast") and is_left_out(collection_path, config.rootpath) else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add markers; with ``--fast``, select tests by them and two cases of each."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            add_markers(item, config.rootpath)
        if not LEFT_OUT.intersection(mark.name for mark in item.iter_markers()):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    if config.getoption("--fast"):
        chosen = [item for group in cases.values() for item in (group[0], *group[1:][-1:])]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU, saying why, where it cannot be had; fail it where one is required."""
    if item.get_closest_marker("gpu") is None:
        return
    obstacle = device_report().gpu_obstacle or probe.missing_packages_reason(probe.missing_packages(["numba_cuda"]))
    if not obstacle and (marker := item.get_closest_marker("rapids")) is not None:
        obstacle = probe.missing_packages_reason(probe.missing_packages(marker.args or probe.RAPIDS))
    if obstacle:
        end = pytest.fail if item.config.getoption("--require-gpu") else pytest.skip
        end(f"needs a GPU: {obstacle}")
