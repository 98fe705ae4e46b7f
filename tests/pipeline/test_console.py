from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpupipe.backends.stage import Place
from gpupipe.report.data import LeaderboardRow
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.timeline import Timeline

ROWS = [
    LeaderboardRow(model="forest", metrics={"roc_auc": 0.81, "f1": 0.5}, validation={"roc_auc": 0.82}, seconds=0.5),
    LeaderboardRow(
        model="boost", metrics={"roc_auc": 0.84, "f1": float("nan")}, validation={"roc_auc": 0.85}, best=True
    ),
]
METRICS = {"best": "boost", "models": {row.model: dict(row.metrics) for row in ROWS}}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def a_run(console: Console) -> None:
    with console:
        timeline = Timeline([console])
        with timeline.stage("read", Place("cpu", "no NVIDIA driver found")) as stage:
            stage.rows = 7043
            stage.note("TotalCharges: 11 nulls imputed")
            stage.note("column \x1b[31m\x07 is [bold]odd[/bold]")
        timeline.note("task binary")
        with (
            timeline.stage("train", Place("cpu", "no NVIDIA driver found")),
            timeline.stage("boost", Place("gpu", "asked for")),
        ):
            pass
        console.finished(ROWS, METRICS, Path("runs/churn-1"))


def printed(**options: bool) -> tuple[str, str]:
    err, out = io.StringIO(), io.StringIO()
    a_run(Console(err=err, out=out, **options))
    return err.getvalue(), out.getvalue()


def on_a_terminal(tmp_path: Path, code: str) -> str:
    """Return what a Python process writes when its stderr is a terminal of 100 columns."""
    main, side = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "TERM": "xterm-256color", "PYTHONUTF8": "1"}
    environment.pop("NO_COLOR", None)
    child = subprocess.Popen([sys.executable, "-c", code], stderr=side, stdout=subprocess.DEVNULL, env=environment)
    os.close(side)
    text = b""
    try:
        while chunk := os.read(main, 65536):
            text += chunk
    except OSError:  # on Linux: the other end of the terminal is closed
        pass
    os.close(main)
    assert child.wait() == 0
    return text.decode()


def test_without_a_terminal_there_are_plain_lines_without_control_characters() -> None:
    err, out = printed()
    assert out == ""
    assert not CONTROL.search(err)
    lines = err.splitlines()
    assert lines[0] == "cpu: no NVIDIA driver found"
    assert re.match(r"✓ read +7,043 rows +\S+ rows/s +\S+ \w+  cpu$", lines[1])
    assert lines[2] == "    TotalCharges: 11 nulls imputed"
    assert lines[3] == r"    column \x1b[31m\x07 is [bold]odd[/bold]"
    assert lines[4] == "task binary"
    assert lines[5] == "▸ train"
    assert lines[6] == "gpu: asked for"
    assert lines[7].startswith("  ✓ boost")
    assert lines[8].startswith("✓ train")
    assert lines[-1] == "runs/churn-1"


def headings(table: str) -> list[str]:
    """Return the headings of a leaderboard, whose longer ones take two lines."""
    lines = table.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    upper, lower = lines[rule - 2].ljust(200), lines[rule - 1].ljust(200)
    ends = [match.end() for match in re.finditer(r"\S+(?: \S+)*", lower)]
    starts = [0, *ends[:-1]]
    return [
        " ".join(f"{upper[start:end]} {lower[start:end]}".split())
        for start, end in zip(starts, ends, strict=True)
    ]  # fmt: skip


def test_the_leaderboard_marks_the_best_and_shows_validation_next_to_test() -> None:
    text = printed()[0]
    assert headings(text) == ["model", "ROC AUC (validation)", "ROC AUC", "F1 score", "seconds"]
    table = text.splitlines()
    marked = [line.split() for line in table if line.startswith("★")]
    assert marked == [["★", "boost", "0.8500", "0.8400", "–", "–"]]
    assert ["forest", "0.8200", "0.8100", "0.5000", "0.5000"] in [line.split() for line in table]


def test_the_leaderboard_shows_the_spread_over_the_folds() -> None:
    err = io.StringIO()
    row = LeaderboardRow(model="forest", metrics={"roc_auc": 0.81, "roc_auc_std": 0.0123}, best=True)
    Console(err=err).finished([row], {}, Path("runs/x"))
    assert "0.8100 ± 0.0123" in err.getvalue()
    assert "roc_auc_std" not in err.getvalue()


def test_the_leaderboard_has_the_latency_if_it_was_measured_and_the_limit_where_it_is_exceeded() -> None:
    err = io.StringIO()
    rows = [
        LeaderboardRow(model="linear", metrics={"r2": 0.8}, p99_seconds=85.3e-6, limit_seconds=0.002, best=True),
        LeaderboardRow(model="forest", metrics={"r2": 0.9}, p99_seconds=0.01234, limit_seconds=0.002),
    ]
    Console(err=err).finished(rows, {}, Path("runs/x"))
    assert headings(err.getvalue()) == ["model", "R²", "one row p99", "seconds"]
    lines = [line.split() for line in err.getvalue().splitlines()]
    assert ["★", "linear", "0.8000", "85.3", "us", "–"] in lines
    assert ["forest", "0.9000", "12.3", "ms", ">", "2", "ms", "–"] in lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_columns(columns: int, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def plain(terminal: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())


@pytest.mark.parametrize(("columns", "n_metrics"), [(80, 3), (100, 4), (120, 5)])
def test_the_leaderboard_fits_the_terminal_with_fewer_metrics_and_none_is_cut(
    columns: int, n_metrics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["roc_auc", "average_precision", "f1", "log_loss", "brier"]
    row = LeaderboardRow(
        model="hist_gradient_boosting", metrics=dict.fromkeys(names, 0.5), validation={"roc_auc": 0.5}, best=True
    )
    terminal = on_columns(columns, monkeypatch)
    Console(err=terminal).finished([row], {}, Path("runs/x"))
    shown = plain(terminal)
    assert "…" not in shown
    titles = ["ROC AUC", "Average precision", "F1 score", "Log loss", "Brier score"]
    assert headings(shown) == ["model", "ROC AUC (validation)", *titles[:n_metrics], "seconds"]
    assert re.search("^★ +hist_gradient_boosting ", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("is_timing", [False, True])
def test_no_thread_redraws_the_terminal_while_calls_are_timed(is_timing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, before = on_columns(80, monkeypatch), set(threading.enumerate())
    with Console(err=terminal) as console, Timeline([console]).stage("latency", Place("cpu"), is_timing=is_timing):
        assert bool(set(threading.enumerate()) - before) == (not is_timing)
        assert not is_timing or " latency " in plain(terminal)  # drawn once
    assert "✓ latency" in plain(terminal)


@pytest.mark.parametrize("columns", [80, 120])
def test_stages_and_their_notes_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_columns(columns, monkeypatch)
    with Console(err=terminal) as console:
        timeline = Timeline([console])
        for name in ("read", "fold 10 of 10: train hist_gradient_boosting", "train " + "a_long_name_of_a_model" * 5):
            with timeline.stage(name, Place("cpu")) as stage:
                stage.rows = 12_345_678
                stage.note("a note that goes on " * 9)
        with timeline.stage("predict", Place("cpu")) as stage:
            stage.rows = 0
    lines = [line.rstrip() for line in plain(terminal).splitlines()]
    assert max(map(len, lines)) <= columns
    (shown,) = (line for line in lines if line.startswith("✓ fold"))
    assert "fold 10 of 10: train hist_gradient_boosting  " in shown and "12,345,678 rows" in shown
    assert ("rows/s" in shown) == (columns == 120)
    assert all(line.startswith("    ") for line in lines if "note" in line)
    (empty,) = (line for line in lines if line.startswith("✓ predict"))
    assert " rows" not in empty


def test_quiet_prints_nothing() -> None:
    assert printed(quiet=True) == ("", "")


@pytest.mark.parametrize("quiet", [False, True])
def test_json_puts_exactly_one_document_on_stdout(quiet: bool) -> None:
    err, out = printed(as_json=True, quiet=quiet)
    assert json.loads(out) == {
        "run_directory": "runs/churn-1",
        "best": "boost",
        "models": {"forest": {"roc_auc": 0.81, "f1": 0.5}, "boost": {"roc_auc": 0.84, "f1": None}},
    }
    assert ("read" in err) is not quiet


def test_a_stage_that_fails_is_marked_and_ends_the_display() -> None:
    err = io.StringIO()
    with (
        pytest.raises(ZeroDivisionError),
        Console(err=err) as console,
        Timeline([console]).stage("train", Place("cpu")),
    ):
        1 / 0  # noqa: B018
    assert err.getvalue().splitlines()[-1].startswith("✗ train")


PROLOGUE = """
import sys
from pathlib import Path
from gpupipe.backends.stage import Place
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.timeline import Timeline
from gpupipe.report.data import LeaderboardRow
"""
RUN = f"""{PROLOGUE}
with Console() as console:
    timeline = Timeline([console])
    with timeline.stage("lesen", Place("cpu", "kein GPU – é")) as stage:
        stage.rows = 10
    console.finished([LeaderboardRow(model="baum", metrics={{"auc": 0.5, "auc_std": 0.1}}, best=True)], {{}}, Path("r"))
"""


def test_on_a_terminal_the_spinner_is_gone_at_the_end_and_the_cursor_is_back(tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, RUN)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor was hidden, and is shown again
    assert "✓ lesen" in shown
    after = shown[shown.index("✓ lesen") :]
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", after)


def test_on_a_terminal_the_cursor_comes_back_after_an_interruption(tmp_path: Path) -> None:
    code = f"""{PROLOGUE}
try:
    with Console() as console, Timeline([console]).stage("train", Place("cpu")):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    sys.exit(0)
"""
    shown = on_a_terminal(tmp_path, code)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_an_ascii_stream_gets_ascii_signs_and_no_error() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii:backslashreplace", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, env=environment, check=True)
    shown = done.stderr.decode("ascii")
    assert "+ lesen" in shown
    assert "* |baum" in shown


def test_rich_is_imported_only_when_there_is_something_to_print() -> None:
    code = f"""{PROLOGUE}
with Console(quiet=True) as console, Timeline([console]).stage("read", Place("cpu")):
    pass
heavy = {{"rich", "numpy", "pandas", "pyarrow", "sklearn", "matplotlib", "jinja2"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
