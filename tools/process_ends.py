"""Ends of processes: ``python -m tools.process_ends --cases 2000 --tables FOLDER --state ends.json``.

Starts `gpupipe init`, `check` and `predict` on sound and messy tables, a third of them with Ctrl-C or SIGTERM at a
random moment, while busy loops run. Fails if a process ends by a signal that was not sent, hangs, or has another exit
code than the documented ones. ``--state`` stores the counts after each case: the same command continues there, and
``--cases`` is the total.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from gpupipe.children import python_command

SOUND = "a,b,y\n" + "".join(f"{i},{'pqr'[i % 3]},{i % 2}\n" for i in range(60))
CONFIG = "source: {{path: {path}, target: y}}\nmodels: [logistic_regression]\n"
CODES = frozenset({0, 2, 3, 4, 5})
SENT = (None, None, None, None, signal.SIGINT, signal.SIGTERM)
LONGEST_SECONDS = 300.0
LATEST_SIGNAL_SECONDS = 6.0
MOST_BYTES = 40_000  # of a table: the start of a process is tested, not its speed
WRONG = ("terminate called", "Fatal Python error", "this is a bug in gpupipe", "core dumped")
IN_PYTHON = "Fatal Python error: init_import_site"  # a signal during Python's own start, before a line of gpupipe


@dataclass
class EndCounts:
    """Counts of a campaign: the number of the next case, ends by command and exit code, and failures."""

    next_case: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> EndCounts:
        """Return the counts of a file, or new ones if there is no file."""
        if not path.exists():
            return cls()
        found = json.loads(path.read_text())
        return cls(found["next_case"], Counter(found["ends"]), found["failures"])

    def save(self, path: Path) -> None:
        """Write the counts."""
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(vars(self), indent=1))
        draft.replace(path)


def problem_of(code: int, sent: int | None, output: str) -> str:
    """Return what is wrong with the end of a process, or ``""``.

    >>> problem_of(-6, None, "terminate called without an active exception")
    'ended by SIGABRT'
    >>> problem_of(143, signal.SIGTERM, "")
    ''
    """
    if sent is not None and (code in (-sent, 128 + sent) or IN_PYTHON in output):
        return ""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if found := next((text for text in WRONG if text in output), None):
        return f"{found!r} in the output"
    return "" if code in CODES else f"exit code {code}"


def command_of(rng: Random, tables: list[Path], folder: Path) -> list[str]:
    """Return the command line of a case."""
    sound = folder / "sound.csv"
    table = sound if rng.random() < 0.3 else rng.choice(tables)
    match rng.choice(("init", "init", "check", "predict")):
        case "init":
            target = rng.choice(("y", "absent", "a"))
            return ["init", str(table), "--target", target, "-o", str(folder / f"{rng.getrandbits(64)}.yaml")]
        case "check":
            config = folder / f"{rng.getrandbits(64)}.yaml"
            config.write_text(CONFIG.format(path=json.dumps(str(table))))
            return ["check", str(config)]
        case _:
            return ["predict", str(folder / "run"), str(table), "-o", str(folder / f"{rng.getrandbits(64)}.csv")]


def run_case(number: int, seed: int, tables: list[Path], folder: Path) -> tuple[str, str]:
    """Run a case; return its command with its exit code, and its problem or ``""``."""
    rng = Random(f"{seed}:{number}")
    command = command_of(rng, tables, folder)
    chosen, sent = rng.choice(SENT), None
    with subprocess.Popen(
        python_command("-m", "gpupipe", *command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            if chosen is not None:
                try:
                    process.communicate(timeout=rng.uniform(0, LATEST_SIGNAL_SECONDS))
                except subprocess.TimeoutExpired:
                    process.send_signal(sent := chosen)
            output, _ = process.communicate(timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{command[0]} hangs", f"case {number}: {' '.join(command)}: hangs"
    text = output.decode(errors="replace")
    wrong = problem_of(process.returncode, sent, text)
    end = f"{command[0]} {process.returncode}" + ("" if sent is None else f" after {signal.Signals(sent).name}")
    return end, f"case {number}: {' '.join(command)}: {wrong}: {text[-500:]}" if wrong else ""


@contextmanager
def busy_loops(n: int) -> Iterator[None]:
    """Keep `n` processes busy in the ``with`` block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    """Run the cases that are missing; return 1 if any case failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.process_ends", description="Test how processes end.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=Path, required=True, help="folder of messy tables, searched recursively")
    parser.add_argument("--state", type=Path, default=Path("process-ends.json"))
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--busy", type=int, default=2, help="busy loops that run at the same time")
    asked = parser.parse_args()
    tables = sorted(
        path for path in asked.tables.resolve().rglob("*") if path.is_file() and path.stat().st_size <= MOST_BYTES
    )
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background jobs of a shell, whose children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    counts = EndCounts.load(asked.state)
    os.environ.setdefault("GPUPIPE_FORCE_CPU", "1")
    with tempfile.TemporaryDirectory(prefix="gpupipe-ends-") as made:
        folder = Path(made)
        os.environ["GPUPIPE_CACHE"] = str(folder / "cache")
        (folder / "sound.csv").write_text(SOUND)
        (folder / "run.yaml").write_text(CONFIG.format(path="sound.csv"))
        run = python_command("-m", "gpupipe", "run", "run.yaml", "--output", "run", "--quiet")
        subprocess.run(run, cwd=folder, check=True)
        with busy_loops(asked.busy), ThreadPoolExecutor(asked.at_once) as pool:
            numbers = range(counts.next_case, asked.cases)
            for end, failure in pool.map(lambda number: run_case(number, asked.seed, tables, folder), numbers):
                counts.next_case += 1
                counts.ends[end] += 1
                counts.failures += [failure] if failure else []
                counts.save(asked.state)
    print(json.dumps(vars(counts), indent=1))
    return int(bool(counts.failures))


if __name__ == "__main__":
    sys.exit(main())
