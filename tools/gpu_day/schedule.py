"""Visits to the GPU machine: what travels, the steps that run, and their seconds."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.device.steps import STEPS

DAY_SECONDS = 900  # lent in all, the start of the machine and transfers included
START_SECONDS = (60, 240)  # shortest and longest start seen
COMMAND_SECONDS = 600  # limit of one command
UNPACK_SECONDS = 20  # reserved in each visit
CARRIED_BYTES = 64 << 20  # limit of one command, the repository's files included
SPARE_BYTES = 256 << 10  # for files that change after packing


@dataclass(frozen=True)
class Visit:
    """One command on the GPU machine.

    Attributes
    ----------
    freight : tuple of str
        Folders in ``.gpu`` that travel with it.
    steps : tuple of str
        Steps of `benchmarks.device`, the most valuable first.
    """

    freight: tuple[str, ...]
    steps: tuple[str, ...]

    @property
    def seconds(self) -> int:
        """The sum of the steps' time limits."""
        return sum(STEPS[name].seconds for name in self.steps)


# A machine that was idle is gone with everything on it, so each visit carries all that it needs; except 3b, which runs
# directly after 3a.
VISITS = {
    "1": Visit(("1",), ("environment", "probes", "program", "kernels", "counters", "batches", "sanitizer")),
    "2": Visit(("1", "2"), ("churn", "tests", "networks", "features")),
    "3a": Visit(("1", "2", "3a"), ()),
    "3b": Visit(("3b",), ("end_to_end", "keyed", "reading")),
}


def schedule_lines() -> list[str]:
    """Return the seconds of the schedule as lines of text."""
    lines, total = [], 0
    for name, visit in VISITS.items():
        total += visit.seconds + UNPACK_SECONDS
        lines.append(
            f"visit {name}: steps of at most {visit.seconds} s, {UNPACK_SECONDS} s to arrive; {total} s so far"
        )
    starts = " to ".join(map(str, START_SECONDS))
    return [*lines, f"{DAY_SECONDS} s in all, {starts} s of them the start of the machine"]
