"""Disturbed runs of the command line, and checks that the old result or the new one remains."""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupipe.children import child_environment, python_command
from gpupipe.errors import GpupipeError
from gpupipe.pipeline.records.rundir import write_run_file
from gpupipe.training.checkpoints.run_checkpoints import RESUMED

RIGHT, WRONG = "right", "wrong"
MOST_LINES = 12  # lines of an error
LOOK_SECONDS, MOST_SECONDS = 0.01, 600.0

CONFIG = """\
seed: 3
source: {{generate: churn, rows: {rows}, target: Churn, positive: "Yes", drop: [customerID], cache: false}}
split: {{cv: 3}}
features:
  - impute: {{columns: "@numeric", strategy: median}}
  - target_encode: {{columns: City, folds: 3}}
  - encode: ["@categorical", "!City"]
models: [logistic_regression, xgboost: {{n_estimators: 60}}, gaussian_nb]
evaluate: {{importance: false, threshold: best_f1}}
report: {{enabled: false}}
"""


@dataclass(frozen=True)
class FaultOutcome:
    """Outcome of a disturbed run and of the subsequent run with --resume.

    Attributes
    ----------
    what : str
        Description of the fault.
    outcome : {"right", "wrong"}
    code : int
        Its exit code; negative if a signal ended it.
    left : {"old", "new", "nothing"}
        Content of the final name after it.
    taken_up : int
        Number of stages that the run with --resume took from checkpoints.
    problems : tuple of str
    """

    what: str
    outcome: str
    code: int
    left: str
    taken_up: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReferenceRun:
    """An undisturbed run.

    Attributes
    ----------
    config : Path
    run : Path
    seconds : float
        From its start, after loading libraries, to its end.
    """

    config: Path
    run: Path
    seconds: float

    @property
    def metrics(self) -> bytes:
        """Content of metrics.json."""
        return (self.run / "metrics.json").read_bytes()

    @classmethod
    def of(cls, folder: Path, rows: int) -> ReferenceRun:
        """Run undisturbed in `folder`, twice, because the first run fills the page cache.

        Raises
        ------
        GpupipeError
            If the run fails.
        """
        config = folder / "faults.yaml"
        config.write_text(CONFIG.format(rows=rows), encoding="utf8")
        for _ in range(2):
            process = start(config, folder / "undisturbed")
            began = until_begun(process, folder)
            said = process.communicate(timeout=MOST_SECONDS)[1]
            if process.returncode:
                raise GpupipeError(f"the undisturbed run failed:\n{said}", where=str(config))
            seconds = time.monotonic() - began
        return cls(config, folder / "undisturbed", seconds)

    def place_old(self, final: Path) -> str:
        """Copy the reference run to the final name of another run; return the hash of its files."""
        shutil.copytree(self.run, final)
        (final / "log.jsonl").write_text("of the earlier run\n", encoding="utf8")
        write_run_file(final)
        return mark(final)

    def left(self, final: Path, old: str) -> tuple[str, list[str]]:
        """Return the content of the final name, and its problems."""
        if not final.exists():
            return "nothing", ["the earlier run is missing"] if old else []
        if mark(final) == old:
            return "old", []
        is_whole = sorted(names(final)) == sorted(names(self.run)) and self.is_same(final)
        return "new", [] if is_whole else ["the directory under the final name is neither the old run nor the new one"]

    def is_same(self, run: Path) -> bool:
        """Return whether a run has exactly the metrics of the undisturbed one."""
        return (run / "metrics.json").read_bytes() == self.metrics

    def resumed(self, final: Path) -> tuple[int, list[str]]:
        """Resume an interrupted run; return the number of resumed stages, and the problems."""
        process = start(self.config, final, ["--resume"])
        said = process.communicate(timeout=MOST_SECONDS)[1]
        if process.returncode:
            return 0, [f"--resume ended with exit code {process.returncode}: {said[-500:]}"]
        problems = [] if self.is_same(final) else ["the metrics after --resume differ"]
        extra = sorted(path.name for path in final.parent.iterdir() if path != final)
        problems += [f"unexpected files: {', '.join(extra)}"] if extra else []
        stages = json.loads((final / "timeline.json").read_text(encoding="utf8"))["stages"]
        return sum(RESUMED in stage["notes"] for stage in stages), problems


def start(config: Path, output: Path, options: Sequence[str] = (), most_bytes: int | None = None) -> Any:
    """Start a run; `most_bytes` limits the size of each of its files."""
    environment = child_environment({"PYTHONIOENCODING": "utf8"})
    if most_bytes is not None:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python does not notice a truncated compiled module
    command = python_command("-m", "gpupipe", "run", str(config), "--quiet", "--device", "cpu")

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.Popen(
        [*command, "--output", str(output), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=limit if most_bytes is not None else None,
    )


def until_begun(process: Any, folder: Path) -> float:
    """Wait until a run has created its hidden directory in `folder`; return the time."""
    while process.poll() is None and not any(".tmp-" in path.name for path in folder.iterdir()):
        time.sleep(LOOK_SECONDS)
    return time.monotonic()


def problems_of_error(code: int, said: str, allowed: Sequence[int]) -> list[str]:
    """Return the problems of a finished run: an unexpected exit code, a traceback, or more than a screen of errors."""
    problems = [] if code in allowed else [f"exit code {code}: {said[-500:]}"]
    problems += ["a traceback"] if "Traceback" in said else []
    return problems + (["an error of more than a screen"] if len(said.splitlines()) > MOST_LINES else [])


def names(folder: Path) -> list[str]:
    """Return the files in a folder and its subfolders."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def mark(folder: Path) -> str:
    """Return a hash of the names and contents of all files in a folder."""
    found = hashlib.sha256()
    for name in sorted(names(folder)):
        found.update(f"{name}\0".encode() + (folder / name).read_bytes() + b"\0")
    return found.hexdigest()
