"""The benchmark of whole processes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from benchmarks import startup


def test_each_command_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(startup, "COMMANDS", {"nothing": ("-c", "pass")})
    monkeypatch.setattr(sys, "argv", ["startup", "--rounds", "2", "--rows", "10"])
    startup.main()
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["first", "s", "median", "s", "cpu", "s", "MiB"]
    name, *figures = line.split()
    assert name == "nothing" and len(figures) == 4 and all(float(figure) > 0 for figure in figures)


def test_a_command_that_fails_ends_the_benchmark(tmp_path: Any) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        startup._run(("-c", "raise SystemExit(3)"), str(tmp_path))
