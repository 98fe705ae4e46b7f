"""One cell: files for the contender, its process, and the score of its predictions."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.answers.contenders.exchange import (
    PREDICTIONS_FILE,
    REPORT_FILE,
    TEST_FILE,
    TRAIN_FILE,
    AnswerTask,
)
from benchmarks.answers.published import published_score
from benchmarks.answers.records import CellRecord
from benchmarks.answers.scoring import score_predictions
from benchmarks.answers.splits import make_fold
from gpupipe.bench.measurement import describe_machine

if TYPE_CHECKING:
    import pandas as pd
    import psutil

    from benchmarks.answers.tables import AnswerTable

CHECKOUT = Path(__file__).resolve().parents[2]
MIB = 2**20
SAMPLE_S = 0.25  # between two samples of the memory
ERROR_CHARACTERS = 600
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Contender:
    """A program of `benchmarks.answers.contenders` with its settings and the interpreter of its environment."""

    name: str
    module: str
    python: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    is_limited: bool = True  # it has a time limit; without one, the result is the same for all limits


@dataclass(frozen=True)
class Resources:
    """Limits of a cell: seconds of training, cores, and seconds after which the process is killed."""

    limit_s: float
    cores: int
    timeout_s: float


def write_files(table: AnswerTable, frame: pd.DataFrame, fold: int, task: AnswerTask, folder: Path) -> pd.Series:
    """Write the contender's files to the folder, and return the true values of the test rows, which stay here."""
    train, test = make_fold(table, frame, fold)
    frame.iloc[train].to_parquet(folder / TRAIN_FILE, index=False)
    frame.iloc[test].drop(columns=table.target).to_parquet(folder / TEST_FILE, index=False)
    task.write(folder)
    return frame[table.target].iloc[test].reset_index(drop=True)


def run_cell(
    table: AnswerTable, frame: pd.DataFrame, fold: int, contender: Contender, resources: Resources, busy_cores: float
) -> CellRecord:
    """Return the result of a contender on a fold; a failure is a result with an error."""
    import pandas as pd

    limit_s = resources.limit_s if contender.is_limited else 0.0
    task = AnswerTask(
        target=table.target,
        task=table.task,
        metric=table.metric,
        limit_s=resources.limit_s,
        cores=resources.cores,
        group=table.group,
        time=table.time,
        options=dict(contender.options),
    )
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="answers-") as name:
        folder = Path(name)
        truth = write_files(table, frame, fold, task, folder)
        done = _run_process(contender, folder, resources)
        score, published = None, None
        error = done.error
        report = dict[str, Any]()
        if not error:
            try:
                report = json.loads((folder / REPORT_FILE).read_text(encoding="utf8"))
                predictions = pd.read_parquet(folder / PREDICTIONS_FILE)
                score = score_predictions(predictions, truth, table.metric)
                published = published_score(predictions, truth, table.metric)
            except (OSError, ValueError) as raised:
                error = f"{type(raised).__name__}: {raised}"[:ERROR_CHARACTERS]
    return CellRecord(
        table=table.name,
        fold=fold,
        contender=contender.name,
        limit_s=limit_s,
        metric=table.metric,
        score=score,
        error=error,
        fit_s=report.get("fit_s"),
        predict_s=report.get("predict_s"),
        wall_s=round(done.wall_s, 3),
        peak_memory_mib=round(done.peak_bytes / MIB, 1),
        n_train=len(frame) - len(truth),
        n_test=len(truth),
        versions=report.get("versions", {}),
        note=report.get("note", ""),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        busy_cores=busy_cores,
        commit=_commit(),
        published=published,
    )


@dataclass(frozen=True)
class _EndedProcess:
    error: str
    wall_s: float
    peak_bytes: int


@functools.cache
def _commit() -> str:
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _run_process(contender: Contender, folder: Path, resources: Resources) -> _EndedProcess:
    """Run the contender, and end whatever processes it leaves."""
    import psutil

    environment = os.environ | dict.fromkeys(THREAD_SETTINGS, str(resources.cores))
    environment |= {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "kernels")]), "PYTHONHASHSEED": "0"}
    command = [str(contender.python), "-m", f"benchmarks.answers.contenders.{contender.module}", str(folder)]
    log = folder / "log.txt"
    started = time.perf_counter()
    peak = 0
    error = ""
    family: set[psutil.Process] = set()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while process.poll() is None:
                with suppress(psutil.NoSuchProcess):
                    leader = psutil.Process(process.pid)
                    family.update([leader, *leader.children(recursive=True)])
                peak = max(peak, _resident_bytes(family))
                if time.perf_counter() - started > resources.timeout_s:
                    error = f"killed after {resources.timeout_s:g} s"
                    break
                time.sleep(SAMPLE_S)
        finally:
            wall_s = time.perf_counter() - started
            _end(process, family)
    if not error and process.returncode != 0:
        tail = log.read_text(encoding="utf8", errors="replace").strip()[-ERROR_CHARACTERS:]
        error = f"exit code {process.returncode}: {tail}"
    return _EndedProcess(error, wall_s, peak)


def _end(process: subprocess.Popen[bytes], family: Iterable[psutil.Process]) -> None:
    """Kill what is left of the contender: its process group, and workers that left the group."""
    import psutil

    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for member in family:
        with suppress(psutil.NoSuchProcess):  # a process is known by its start time too, so a new one is not killed
            member.kill()
    process.wait()


def _resident_bytes(family: Iterable[psutil.Process]) -> int:
    """Return the resident memory of processes; shared pages are counted in each."""
    import psutil

    total = 0
    for member in family:
        with suppress(psutil.NoSuchProcess):
            total += member.memory_info().rss
    return total
