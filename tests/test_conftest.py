"""Selection of tests: absent libraries, tests of the night, and what passed elsewhere, on a small suite of tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.absent_libraries import LIBRARIES, named_library
from tests.nightly import NIGHTLY, Nightly, changed_files
from tests.records import BUDGETS, SLOW_SECONDS

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "torch"),
        ("ModuleNotFoundError: No module named 'torch.nn'", "torch"),
        ("No module named 'torchvision'", None),
        ("could not import 'mapie': No module named 'mapie'", "mapie"),
        ("what: source: delta needs deltalake\\nfix: pip install 'gpupipe[delta]'", "deltalake"),
        ("fix: pip install catboost, or remove it", "catboost"),
        ("NVIDIA's ptxas is not installed", "nvidia"),
        ("NVIDIA's nvvm is missing: pip install 'gpupipe[test-all]'", "nvidia"),
        ("fix: pip install 'gpupipe[cpu]'", None),
        ("No module named 'numpy'", None),
        ("assert 1 == 2", None),
    ],
)
def test_an_error_names_the_library_that_is_absent(text: str, named: str | None) -> None:
    assert named_library(text, tuple(LIBRARIES)) == named


def test_a_library_that_is_installed_excuses_nothing() -> None:
    assert named_library("No module named 'torch'", ("catboost",)) is None


SUITE = {
    "test_finished.py": "open('log', 'a').write('imported ')\ndef test_passes(): pass\n",
    "test_first.py": "import absent_one\ndef test_never(): pass\n",
    "test_second.py": """
import pytest
def test_passes(): open("log", "a").write("ran ")
def test_fails_for_want_of_it():
    import absent_one.part
def test_fails(): assert 1 == 2
@pytest.mark.needs("absent_one")
def test_declares(): raise SystemExit
""",
}
CONFTEST = """
from pathlib import Path
import tests.absent_libraries as absent
from tests.records import Recorder, WithoutPassed

absent.LIBRARIES["absent_one"] = "absent-one"

def pytest_addoption(parser):
    parser.addoption("--record")
    parser.addoption("--without-passed")

def pytest_configure(config):
    config.addinivalue_line("markers", "needs(library): needs it")
    config.pluginmanager.register(absent.AbsentLibraries())
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--record"))))
    if config.getoption("--without-passed"):
        config.pluginmanager.register(WithoutPassed(Path(config.getoption("--without-passed"))))

def pytest_terminal_summary(terminalreporter):
    absent.write_skipped(terminalreporter)
"""


def run_suite(folder: Path, *options: str) -> str:
    """Run the small suite in a new process; return its output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-rs", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_two_environments_run_every_test_once(tmp_path: Path) -> None:
    for name, source in {**SUITE, "conftest.py": CONFTEST, "pytest.ini": "[pytest]"}.items():
        (tmp_path / name).write_text(source)
    first = run_suite(tmp_path, "--record", "first.json")
    assert "needs absent_one" in first
    assert "2 tests and 1 whole files need absent_one: pip install '.[test-all]'" in first
    assert "1 failed, 2 passed, 3 skipped" in first  # the whole file is one of them
    record = json.loads((tmp_path / "first.json").read_text())
    assert record["passed"] == ["test_finished.py::test_passes", "test_second.py::test_passes"]
    assert record["finished"] == ["test_finished.py"]

    (tmp_path / "absent_one").mkdir()  # the other environment has it
    for name in ("__init__.py", "part.py"):
        (tmp_path / "absent_one" / name).touch()
    (tmp_path / "test_second.py").write_text(SUITE["test_second.py"].replace("raise SystemExit", "pass"))
    second = run_suite(tmp_path, "--without-passed", "first.json")
    assert "1 failed, 5 passed" in second  # with the two that passed before
    assert (tmp_path / "log").read_text() == "imported ran "
    assert "not installed" not in second


class _Config:
    """The parts of pytest's configuration that the plug-in reads."""

    def __init__(self, since: str = "", nightly: bool = False, args: tuple[str, ...] = ("tests",)) -> None:
        self.options = {"--since": since, "--nightly": nightly}
        self.rootpath, self.args, self.invocation_params = ROOT, args, self
        self.dir = ROOT

    def getoption(self, name: str) -> object:
        return self.options[name]


def plugin(monkeypatch: pytest.MonkeyPatch, changed: list[str] | None, **more: object) -> Nightly:
    monkeypatch.setattr("tests.nightly.changed_files", lambda since, root: changed)
    return Nightly(_Config(**more))  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [*(paths[0] for paths in NIGHTLY.values()), *NIGHTLY, "constraints.txt"])
def test_tests_of_the_night_run_if_what_they_guard_changed(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"{changed}x.py" if changed.endswith("/") else changed
    nightly = plugin(monkeypatch, [file])
    due = {name for name in NIGHTLY if nightly.pytest_ignore_collect(ROOT / name) is None}
    expected = {name for name, paths in NIGHTLY.items() if file.startswith((name, *paths))}
    assert due == (expected if changed != "constraints.txt" else set(NIGHTLY))


def test_tests_of_the_night_do_not_run_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    nightly = plugin(monkeypatch, ["README.md"])
    assert all(nightly.pytest_ignore_collect(ROOT / name) is True for name in NIGHTLY)
    assert nightly.pytest_ignore_collect(ROOT / "tests" / "metrics") is None
    named = plugin(monkeypatch, [], args=("tests/kernels/test_text.py", "tests/test_installs.py::test_x"))
    assert named.pytest_ignore_collect(ROOT / "tests" / "kernels") is None
    assert named.pytest_ignore_collect(ROOT / "tests" / "test_installs.py") is None
    assert named.pytest_ignore_collect(ROOT / "tests" / "tools") is True


def test_all_run_if_git_does_not_know_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_files("0" * 40, ROOT) is None
    for nightly in (plugin(monkeypatch, None), plugin(monkeypatch, [], nightly=True)):
        assert all(nightly.pytest_ignore_collect(ROOT / name) is None for name in NIGHTLY)


def test_files_that_were_moved_count_under_both_names(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "old.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    git("mv", "old.py", "new.py")
    assert changed_files(commit, tmp_path) == ["new.py", "old.py"]


def test_budgets_are_of_tests_over_the_limit() -> None:
    budgets = json.loads(BUDGETS.read_text(encoding="utf-8"))
    assert all(seconds > SLOW_SECONDS for seconds in budgets.values())
