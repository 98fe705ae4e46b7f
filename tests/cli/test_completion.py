"""Completion in shells: the script, and what it completes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpupipe.cli import COMMANDS, main

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Return a function that completes the last of some words, as the script for zsh asks for it."""

    def words_for(*words: str) -> list[str]:
        monkeypatch.setenv("_GPUPIPE_COMPLETE", "zsh_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["gpupipe", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [f"{kind}:{value}" for kind, value in zip(lines[::3], lines[1::3], strict=True)]

    return words_for


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "compdef _gpupipe_completion gpupipe"), ("fish", "complete --no-files")]
)
def test_the_script_is_printed(
    shell: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_GPUPIPE_COMPLETE", f"{shell}_source")
    assert main([]) == 0
    assert line in capsys.readouterr().out


def test_commands_options_and_paths_are_completed(complete: Complete) -> None:
    assert complete("") == [f"plain:{name}" for name in COMMANDS]
    assert complete("ru") == ["plain:run", "plain:runs"]
    assert complete("run", "--res") == ["plain:--resume"]
    assert complete("run", "--device", "g") == ["plain:gpu"]
    inputs = [(command, "run", "ta") for command in ("predict", "explain", "drift")]
    for words in (("compare", "a", ""), ("open", ""), ("run", "c"), ("init", "ta"), *inputs, ("plan", "c", "-o", "p")):
        assert complete(*words) == [f"file:{words[-1]}"], words
