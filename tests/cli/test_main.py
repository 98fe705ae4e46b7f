"""Behaviour common to all commands, in real processes."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pytest

from gpupipe import __version__
from gpupipe.cli import COMMANDS, main
from gpupipe.errors import ConfigError, DataError, DeviceError, GpupipeError, LimitError, SchemaError

HEAVY = {
    *("numpy", "pandas", "pyarrow", "sklearn", "scipy", "numba", "torch", "cudf", "cupy", "cuml", "dask"),
    *("matplotlib", "xgboost", "skops", "fsspec", "jinja2", "rich"),
}


Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


def test_help_lists_every_command_with_a_line_of_help(gpupipe: Gpupipe) -> None:
    result = gpupipe("--help")
    assert result.returncode == 0
    for name, line in COMMANDS.items():
        assert f"  {name} " in result.stdout
        assert line.split()[0] in result.stdout


def test_commands_that_open_a_model_take_untrusted_ones_or_are_documented() -> None:
    policy = " ".join((Path(__file__).parents[2] / "SECURITY.md").read_text().split())
    have: list[str] = []
    have_not: list[str] = []
    for name in COMMANDS:
        command = import_module(f"gpupipe.cli.{name}").command
        if any("MODEL" in (param.metavar or "") for param in command.params):
            options = {option for param in command.params for option in param.opts}
            (have if {"--untrusted", "--limit"} <= options else have_not).append(name)
            assert "--untrusted" in command.get_help(click.Context(command)), name
    assert len(have) >= 5
    listed = re.search(r"((`\w+`(, | and )?)+) have `--untrusted`", policy)
    assert listed and set(re.findall(r"`(\w+)`", listed[1])) == set(have)
    for name in have_not:
        assert f"`{name}` does not have it, because" in policy


@pytest.mark.parametrize(
    "args", [("--help",), ("check", "--no-data", "churn.yaml"), ("check", "wrong.yaml"), ("schema",)]
)
def test_the_light_commands_import_no_library_of_the_computation(
    gpupipe_process: Gpupipe, churn: Path, args: tuple[str, ...]
) -> None:
    (churn.parent / "wrong.yaml").write_text("soruce: {}\n")
    result = gpupipe_process(*args, python=("-X", "importtime"), cwd=churn.parent)
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "click" in imported
    assert imported & HEAVY == set()


def test_help_does_not_even_import_the_commands(gpupipe_process: Gpupipe, churn: Path) -> None:
    result = gpupipe_process("--help", python=("-X", "importtime"))
    assert "gpupipe.cli.check" not in result.stderr
    assert "pydantic" not in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("chekc",), "there is no command 'chekc'; did you mean 'check'?"),
        (("zzz",), "there is no command 'zzz'; the commands are run, predict"),
        (("check",), "Missing argument 'CONFIG'"),
        (("check", "a.yaml", "--ste", "x=1"), "--set"),
        (("--verbos",), "No such option"),
    ],
)
def test_a_usage_error_exits_with_2_and_a_hint(gpupipe: Gpupipe, args: tuple[str, ...], message: str) -> None:
    result = gpupipe(*args)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_traceback_is_shown_with_debug_only(gpupipe: Gpupipe, tmp_path: Path) -> None:
    assert "Traceback" not in gpupipe("check", "no.yaml", cwd=tmp_path).stderr
    result = gpupipe("--debug", "check", "no.yaml", cwd=tmp_path)
    assert "Traceback" in result.stderr
    assert result.returncode == 2


def test_the_version_is_shown(gpupipe: Gpupipe) -> None:
    result = gpupipe("--version")
    assert result.returncode == 0
    assert result.stdout == f"gpupipe {__version__}\n"


@pytest.mark.parametrize("kind", [GpupipeError, ConfigError, LimitError, DeviceError, DataError, ZeroDivisionError])
def test_every_error_has_its_exit_code_and_no_traceback(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: object) -> None:
        raise kind("what happened")

    monkeypatch.setattr("gpupipe.config.load_config", fail)
    assert main(["check", "any.yaml"]) == getattr(kind, "exit_code", 1)
    shown = capsys.readouterr().err
    assert "what happened" in shown
    assert "Traceback" not in shown
    assert ("--debug" in shown) == (getattr(kind, "exit_code", 1) == 1)


def test_a_long_value_does_not_fill_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: object) -> None:
        raise SchemaError(f"column 'a' holds {'x' * 100_000}", where="a.csv", fix="fix it")

    monkeypatch.setattr("gpupipe.config.load_config", fail)
    assert main(["check", "any.yaml"]) == 5
    shown = capsys.readouterr().err
    assert len(shown) < 1000 and shown.endswith("...\n  where: a.csv\n  to do: fix it\n")


def test_an_interruption_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*args: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("gpupipe.config.load_config", interrupt)
    assert main(["check", "any.yaml"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_an_interruption_that_numpy_replaces_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = np.zeros(2, [("a", "i8"), ("b", "f8")])

    def read(*args: object) -> None:
        np.asarray(pairs.data)  # asks a Python function for the dtype, and replaces any error of it

    monkeypatch.setattr("gpupipe.config.load_config", read)
    monkeypatch.setattr("numpy._core._internal._dtype_from_pep3118", lambda _: signal.raise_signal(signal.SIGINT))
    assert main(["check", "any.yaml"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_terminal_gets_a_panel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["check", "nowhere/[bold].yaml"]) == 2
    shown = capsys.readouterr().err
    words = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert words.startswith("╭─ Configuration error ─")
    assert "│ configuration file not found: nowhere/[bold].yaml " in words
