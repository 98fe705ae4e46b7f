"""Display of a run in a notebook: one output, updated in place."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from gpupipe.timeline.display.notebook import NotebookDisplay
from gpupipe.timeline.timeline import Stage

KERNEL = "python-of-the-tests"
RUN = """\
from pathlib import Path
from gpupipe.config import parse_config
from gpupipe.timeline.display.console import Console, is_interactive
from gpupipe.training.selection.leaderboard import leaderboard_rows
from gpupipe.pipeline.run import run_pipeline

config = parse_config({
    "source": {"generate": "churn", "rows": 4000, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "models": [{"xgboost": {"n_estimators": 300, "early_stopping_rounds": 300}}, "logistic_regression"],
    "report": {"enabled": False},
})
with Console() as console:
    run = run_pipeline(config, Path(OUTPUT), [console])
    console.finished(leaderboard_rows(run.candidates), run.document, run.path)
"""
FAILING = """\
from gpupipe.backends.stage import Place
from gpupipe.timeline.timeline import Timeline
with Console() as console, Timeline([console]).stage("read <b>", Place("cpu")):
    raise KeyboardInterrupt
"""


class Recorder(NotebookClient):
    """A notebook client that records each display message."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.displayed: list[tuple[str, str]] = []

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if "display_data" in msg["msg_type"]:
            self.displayed.append((msg["msg_type"], msg["content"]["data"]["text/html"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Return a notebook that was executed by a real kernel."""
    tmp_path = tmp_path_factory.mktemp("notebook")
    folder = tmp_path / "kernels" / KERNEL
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "GPUPIPE_FORCE_CPU": "1"}
    spec = {"argv": argv, "display_name": KERNEL, "language": "python", "env": environment}
    (folder / "kernel.json").write_text(json.dumps(spec))
    sources = [f"OUTPUT = {str(tmp_path / 'run')!r}\n{RUN}", "print(is_interactive())", "run.timeline", FAILING]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = Recorder(notebook, timeout=120, kernel_name=KERNEL, allow_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(tmp_path))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        client.execute()
    return client


class Ticks:
    """An event that is set after three waits."""

    def __init__(self) -> None:
        self.n = 0

    def wait(self, seconds: float) -> bool:
        self.n += 1
        return self.n > 3

    def is_set(self) -> bool:
        return False


@pytest.mark.parametrize(("is_timing", "n_updates"), [(False, 3), (True, 0)])
def test_nothing_is_redrawn_while_calls_are_timed(
    is_timing: bool, n_updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    display, updates = NotebookDisplay(), []
    monkeypatch.setattr(display, "_update", lambda: updates.append(1))
    display._began[Stage("latency", "cpu", is_timing=is_timing)] = 0.0
    display._keep_updating(Ticks())  # type: ignore[arg-type]
    assert len(updates) == n_updates


def outputs(executed: Recorder, cell: int) -> list[Any]:
    return list(executed.nb.cells[cell].outputs)


def test_the_cell_keeps_one_output_which_ends_with_the_leaderboard(executed: Recorder) -> None:
    (output,) = outputs(executed, 0)
    assert output.output_type == "display_data"
    page = output.data["text/html"]
    assert re.search(r"<details><summary>✓ \d+ stages, .*</summary>", page)
    assert "<progress" not in page and page.count("★") == 1
    assert re.search(r"train xgboost.*logistic_regression.*ROC AUC \(validation\).*★.*/run</div>", page)
    lines = output.data["text/plain"].splitlines()
    assert lines[0].startswith("✓ read ") and any(line.startswith("✓ train xgboost ") for line in lines)


def test_rounds_and_the_validation_metric_were_shown_meanwhile(executed: Recorder) -> None:
    kinds = [kind for kind, _ in executed.displayed]
    assert kinds.count("display_data") == 2  # one for each run, this one and the one that fails
    shown = [page for _, page in executed.displayed]
    found = [m for page in shown for m in re.findall(r"<progress max=.300. value=.(\d+).*?</progress>(.*?)</td>", page)]
    assert all(re.match(rf"round {done} of up to 300", words) for done, words in found)
    assert any("validation logloss 0." in words for _, words in found)


def test_a_notebook_is_interactive_and_a_timeline_has_a_table(executed: Recorder) -> None:
    assert outputs(executed, 1)[0].text == "True\n"
    (output,) = outputs(executed, 2)
    assert re.fullmatch(r"Timeline\(\d+ stages, .*\)", output.data["text/plain"])
    assert "train xgboost" in output.data["text/html"]


def test_an_interrupted_run_is_marked_and_names_are_escaped(executed: Recorder) -> None:
    display, error = outputs(executed, 3)
    assert error.ename == "KeyboardInterrupt"
    assert "✗ 1 stage" in display.data["text/html"] and "read &lt;b&gt;" in display.data["text/html"]


def test_a_script_is_not_interactive() -> None:
    from gpupipe.timeline.display.console import is_interactive

    assert not is_interactive()
