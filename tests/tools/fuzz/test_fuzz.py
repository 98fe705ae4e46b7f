"""Damaged inputs against the promises of the command line; and would what looks for broken ones find them?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz.campaign import draw_case
from tools.fuzz.damage.tables import table_kind
from tools.fuzz.second_reader import columns_of, difference, is_same

ROOT = Path(__file__).parents[3]
CASES = {
    "csv": 60,
    "jsonl": 40,
    "parquet": 60,
    "orc": 30,
    "arrow": 40,
    "config": 150,
    "model": 80,
    "ubj": 40,
    "skops": 60,
    "npz": 20,
    "txt": 20,
    "parts": 50,
    "ensemble": 20,
    "entries": 60,
    "run": 8,
    "cache": 8,
}
SEED = 20
"""Another seed tries other cases: `python -m tools.fuzz --cases 1000 --seed 21`."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked and watched as Linux does it")


def python(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python from the root, in a process without threads of pytest: it will fork."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    return subprocess.run(
        [sys.executable, *args],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=600,
        check=False,
    )


@pytest.mark.nightly
def test_damaged_inputs_keep_the_promises_of_the_command_line(tmp_path: Path) -> None:
    kinds = [f"--kind={name}:{count}" for name, count in CASES.items()]
    corpus = ["--corpus", str(ROOT / "tools" / "fuzz" / "corpus")]
    done = python("-m", "tools.fuzz", *kinds, *corpus, f"--seed={SEED}", "--keep", str(tmp_path), "--json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert {name: tally["failures"] for name, tally in found.items() if tally["failures"]} == {}
    assert done.returncode == 0
    for name in CASES:  # inputs that are rejected unread, or harmless, would prove nothing
        codes = found[name]["codes"]
        assert codes["0"] and (name in ("run", "cache") or codes["2" if name == "config" else "5"])


BEHAVIOURS = {
    "code = 0; Path('out.csv').write_text('1')": "",
    "code = 5; print('Data error: it is damaged', file=sys.stderr)": "",
    "code = 0": "files: missing out.csv",
    "code = 5; print('Data error', file=sys.stderr); Path('out.csv').touch()": "files: unexpected out.csv",
    "code = 5": "exit code 5 without an error message",
    "code = 1": "exit code 1",
    "raise KeyError('x')": "traceback: KeyError: 'x'",
    "os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV",
    "while True: pass": "hang",
    "signal.pause()": "hang",
    "code = 5; print('Data error\\n' * 50, file=sys.stderr)": "expected at most one screen",
    "code = 5; print('Data error \\x1b[2J', file=sys.stderr)": "control character",
    "bytearray(1 << 40)": "traceback: MemoryError",
}
"""Behaviours of a command, and the problem that each must be reported as."""

TRY_THEM = """
import json, os, signal, sys
from pathlib import Path
from tools.fuzz.campaign import Campaign, FuzzTrial
from tools.fuzz.forked_child import ForkLimits
from tools.fuzz.kinds import FuzzCommand

def main(args):
    names = dict(globals())
    exec(args[0], names)
    return names["code"]

def trial(behaviour):
    return FuzzTrial({"a.csv": b"a"}, "a.csv", FuzzCommand((behaviour,), frozenset({0, 5}), "out.csv"))

campaign = Campaign(Path(sys.argv[1], "cases"), Path(), main, Path(), ForkLimits(cpu_seconds=1, wall_seconds=2.0))
behaviours = json.load(sys.stdin)
print(json.dumps(campaign.wrong({behaviour: trial(behaviour) for behaviour in behaviours})))
"""


def test_a_broken_promise_is_found_and_the_next_case_is_checked_separately(tmp_path: Path) -> None:
    done = python("-c", TRY_THEM, str(tmp_path), stdin=json.dumps(list(BEHAVIOURS)))
    found = json.loads(done.stdout)
    said = {behaviour: found.get(behaviour, "")[: len(problem)] for behaviour, problem in BEHAVIOURS.items()}
    assert said == BEHAVIOURS
    assert {behaviour for behaviour, problem in BEHAVIOURS.items() if not problem}.isdisjoint(found)


def test_a_table_is_compared_with_another_reader(tmp_path: Path) -> None:
    sound, ragged = tmp_path / "a.csv", tmp_path / "b.csv"
    sound.write_bytes(b'x,y\n1,a\n 2 ,"b\nc"\n,NA\n')
    ragged.write_bytes(b"x,y\n1,a\n2\n")
    assert columns_of(sound) == {"x": ["1", " 2 ", ""], "y": ["a", "b\nc", "NA"]}
    assert difference(sound) == ""
    assert columns_of(ragged) is None  # nothing to compare with


@pytest.mark.parametrize(
    ("mine", "other"),
    [(1, "2"), ("a", "b"), (None, "a"), ("a", "NA"), (1.5, "1.25"), (True, "false"), (None, 1), (2, 1)],
)
def test_different_values_are_distinguished(mine: object, other: object) -> None:
    assert not is_same(mine, other)


def test_a_case_is_the_same_each_time() -> None:
    kind = table_kind("csv")
    first, again = (draw_case(kind, "1:csv:7").trial(kind).files for _ in range(2))
    assert first == again != draw_case(kind, "1:csv:8").trial(kind).files
