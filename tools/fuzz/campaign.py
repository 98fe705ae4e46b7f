"""Campaigns: run many cases in forked children, and minimize and save those that fail."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tools.fuzz.forked_child import Action, ForkLimits, ForkOutcome, run_forked
from tools.fuzz.kinds import Files, FuzzCommand, InputKind, SoundBase
from tools.fuzz.oracle import problem_of

TOGETHER = 100  # cases per child: a fork and the pages that it copies cost more than most cases
KEPT_OF_A_KIND = 3  # saved cases per failure
AFTERMATH = (".checkpoints",)  # an interrupted run leaves them on purpose


@dataclass(frozen=True)
class FuzzTrial:
    """Files, including the damaged one, and the command that reads them."""

    files: Files
    damaged: str
    command: FuzzCommand


@dataclass(frozen=True)
class FuzzCase:
    """A base, a command, and the seeds of its successive edits."""

    base: SoundBase
    command: FuzzCommand
    edits: tuple[int, ...]

    def trial(self, kind: InputKind) -> FuzzTrial:
        """Return the command with the edited files."""
        content = self.base.files[self.base.damaged]
        for seed in self.edits:
            content = kind.mutate(content, Random(seed))
        files = self.base.finish({**self.base.files, self.base.damaged: content})
        return FuzzTrial(files, self.base.damaged, self.command)


def draw_case(kind: InputKind, seed: str) -> FuzzCase:
    """Return the case of a seed."""
    rng = Random(seed)
    base = rng.choice(kind.bases)
    command = rng.choices(base.commands, [command.share for command in base.commands])[0]
    return FuzzCase(base, command, tuple(rng.getrandbits(48) for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 5]))))


@dataclass
class Tally:
    """The outcomes of the cases of a kind.

    Attributes
    ----------
    codes : Counter
        Exit code to cases.
    unfinished : int
        Cases that requested more work than their time limit allows.
    unchanged : int
        Cases whose edits cancelled each other out.
    failures : dict
        Problem to the number of cases.
    kept : list of str
        The folders of the failing cases.
    """

    codes: Counter[int] = field(default_factory=Counter)
    unfinished: int = 0
    unchanged: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    kept: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0


class Campaign:
    """Runner of cases in a folder, which saves those that fail.

    Parameters
    ----------
    folder : Path
        Folder for the files of the current cases.
    runs : Path
        The folder that ``RUNS`` stands for.
    main : callable
        Takes a command line and returns the exit code.
    keep : Path
        Folder for failing cases.
    """

    def __init__(
        self, folder: Path, runs: Path, main: Callable[[list[str]], int], keep: Path, limits: ForkLimits | None = None
    ) -> None:
        self.folder = folder
        self.runs = runs
        self.main = main
        self.keep = keep
        self.limits = limits or ForkLimits()

    def run(self, name: str, kind: InputKind, seeds: Sequence[str]) -> Tally:
        """Run the cases of these seeds."""
        tally = Tally()
        for start in range(0, len(seeds), TOGETHER):
            cases = [(seed, draw_case(kind, seed)) for seed in seeds[start : start + TOGETHER]]
            trials = [(seed, case, case.trial(kind)) for seed, case in cases]
            trials = [(seed, case, trial) for seed, case, trial in trials if trial.files != case.base.files]
            tally.unchanged += len(cases) - len(trials)
            ends = self.outcomes([trial for _, _, trial in trials])
            for (seed, case, _), (outcome, problem) in zip(trials, ends, strict=True):
                tally.codes[outcome.code] += 1
                tally.cpu_seconds += outcome.cpu_seconds
                if outcome.hung and case.command.may_be_long:
                    tally.unfinished += 1
                elif problem:
                    self._keep(name, kind, case, seed, problem, tally)
        return tally

    def require_sound(self, kind: InputKind) -> None:
        """Raise RuntimeError if a base is rejected unedited: the rejection of its edits would then prove nothing."""
        distinct = {frozenset(base.files.items()): base for base in kind.bases}.values()
        trials = [FuzzTrial(base.finish(base.files), base.damaged, base.commands[0]) for base in distinct]
        for base, (outcome, problem) in zip(distinct, self.outcomes(trials), strict=True):
            if outcome.code or problem:
                raise RuntimeError(
                    f"the valid base {base.name} is rejected with exit code {outcome.code}: {problem} {outcome.stderr}"
                )

    def wrong(self, trials: Mapping[str, FuzzTrial]) -> dict[str, str]:
        """Return name to problem for the trials that fail."""
        names, found = list(trials), dict[str, str]()
        for start in range(0, len(names), TOGETHER):
            some = names[start : start + TOGETHER]
            ends = self.outcomes([trials[name] for name in some])
            found |= {name: problem for name, (_, problem) in zip(some, ends, strict=True) if problem}
        return found

    def outcomes(self, trials: Sequence[FuzzTrial]) -> list[tuple[ForkOutcome, str]]:
        """Run each command on its files; return its outcome and its problem."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for i, trial in enumerate(trials):
            write_files(trial.files, self.folder / str(i))
        ends = run_forked([self._action(trial, self.folder / str(i)) for i, trial in enumerate(trials)], self.limits)
        problems = [
            problem_of(end, trial.command.codes, stray_files(self.folder / str(i), trial, end.code))
            for i, (trial, end) in enumerate(zip(trials, ends, strict=True))
        ]
        return list(zip(ends, problems, strict=True))

    def _action(self, trial: FuzzTrial, folder: Path) -> Action:
        command = trial.command
        args = [arg.replace("FILE", trial.damaged).replace("RUNS", str(self.runs)) for arg in command.args]

        def action(verdict: int) -> int:
            os.chdir(folder)
            if command.prepare is not None:
                command.prepare()
            code = self.main(args)
            if code == 0 and command.check is not None:
                os.write(verdict, command.check(folder).encode("utf-8", "backslashreplace"))
            return code

        return action

    def _keep(self, name: str, kind: InputKind, case: FuzzCase, seed: str, problem: str, tally: Tally) -> None:
        signature = f"{case.command.args[0]}: {re.sub(r'[0-9]+', 'N', problem)[:110]}"
        tally.failures[signature] += 1
        if tally.failures[signature] > KEPT_OF_A_KIND:
            return
        small = self._smaller(kind, case, problem)
        kept = self.keep / name / f"{seed.rpartition(':')[2]}-{re.sub('[^a-z]+', '-', problem.lower())[:50].strip('-')}"
        shutil.rmtree(kept, ignore_errors=True)
        ((outcome, alone),) = self.outcomes([small.trial(kind)])
        shutil.copytree(self.folder / "0", kept)
        (kept / "WHY.txt").write_text(
            f"{alone or problem + ' (not when run alone)'}\n"
            f"seed {seed}, base {case.base.name}, {len(small.edits)} edits, damaged: {case.base.damaged}\n"
            f"gpupipe {' '.join(small.command.args)}\n\n{outcome.stderr[-6000:]}\n{outcome.stdout[-2000:]}",
            encoding="utf-8",
            errors="backslashreplace",
        )
        tally.kept.append(str(kept))

    def _smaller(self, kind: InputKind, case: FuzzCase, problem: str) -> FuzzCase:
        """Return the case without the edits that the failure does not depend on."""
        for edit in case.edits:
            fewer = replace(case, edits=tuple(other for other in case.edits if other != edit))
            if fewer.edits and problem_start(self.outcomes([fewer.trial(kind)])[0][1]) == problem_start(problem):
                case = fewer
        return case


def write_files(files: Files, folder: Path) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def stray_files(folder: Path, trial: FuzzTrial, code: int) -> set[str]:
    """Return unexpected and missing files, given the inputs and the product of a command that succeeds."""
    product = trial.command.product
    there = {path.name for path in folder.iterdir()}
    made = {product} if code == 0 and product else set()
    laid = {name.split("/")[0] for name in trial.files}
    unexpected = there - laid - made - set(AFTERMATH)
    return {f"unexpected {name}" for name in unexpected} | {f"missing {name}" for name in made - there}


def problem_start(problem: str) -> str:
    """Return the words that identify a failure."""
    return re.sub(r"[0-9]+", "N", problem)[:40]
