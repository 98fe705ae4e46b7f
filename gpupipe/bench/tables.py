"""The result document of `gpupipe.bench.measurement` as text: ASCII tables and legends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from gpupipe.bench.figures import EXTRAS, PROCESS, SERVE, STAGES, ratio
from gpupipe.bench.runners import FRESH, STEADY
from gpupipe.names import count_noun
from gpupipe.report.text import printable

if TYPE_CHECKING:
    import rich.table
    import rich.text

PIPE_WIDTH = 1000  # width without a terminal, so that no line is wrapped
NONE = "-"


def show(document: Mapping[str, Any], out: TextIO) -> None:
    """Write `document` to `out`."""
    from rich.console import Console

    width = None if out.isatty() else PIPE_WIDTH
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False)
    for part in parts(document):
        console.print(printable(part, keep="\n") if isinstance(part, str) else part, soft_wrap=isinstance(part, str))


def parts(document: Mapping[str, Any]) -> Iterator[str | rich.table.Table]:
    """Yield the texts and tables from top to bottom."""
    yield heading(document)
    for table in document["tables"]:
        yield f"\n{table_heading(table, document)}\n"
        yield stage_table(table["runners"], document["baseline"], table["metric"])
        yield legend(table["runners"])
        yield "\nCache and serving (separate processes)\n"
        yield extras_table(table)
        yield extras_legend(table)
    if "break_even_rows" in document:
        yield "\nWhole process by size\n"
        yield size_table(document)
        yield break_even_legend(document["break_even_rows"])


def heading(document: Mapping[str, Any]) -> str:
    """Return the version, the device and the machine."""
    machine, device = document["machine"], document["device"]
    load = machine["load_average"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    lines = [
        f"gpupipe {document['gpupipe']} bench {document['config']}, {document['started']}",
        f"device: {device['name']} ({device['reason']})",
        f"machine: {machine['cpu']}, {machine['threads']} threads, {machine['memory_gib']} GiB, Python "
        f"{machine['python']}, {libraries}",
        f"load average at the start: {' '.join(f'{value:.2f}' for value in load)}",
    ]
    if "gpu" in device:
        lines.insert(2, f"GPU: {device['gpu']}. All results below are from the CPU.")
    if load[0] > machine["threads"] / 2:
        lines.append("the machine was busy with other work: CPU seconds are more reliable than wall seconds")
    return "\n".join(lines)


def table_heading(table: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the table, the model and the number of runs."""
    model = table["model"] or "features only"
    folds = f", the first of {document['folds']} folds" if document["folds"] > 1 else ""
    runs = document["repeat"]
    return (
        f"{table['data']}: {table['rows']:,} rows, {table['features']} features, {model}{folds}\n"
        f"median of {count_noun(runs, 'run')}, in turns; wall seconds (in brackets: CPU seconds of all threads)"
    )


def stage_table(runners: Mapping[str, Any], baseline: str, metric: str) -> rich.table.Table:
    """Return the seconds of the stages by runner, with the ratios to the first runner."""
    table = _table("stage")
    others = [name for name in runners if name != baseline]
    table.add_column(_text(baseline), justify="right")
    for name in others:
        table.add_column(_text(name), justify="right")
        table.add_column("ratio", justify="right")
    for label in (*STAGES, PROCESS):
        if all(runner["seconds"][label] is None for runner in runners.values()):
            continue
        cells = [label, _time(runners[baseline], label)]
        for name in others:
            cells += [_time(runners[name], label), _ratio(runners[name]["ratio"][label])]
        table.add_row(*cells, style="bold" if label in ("features total", "total", PROCESS) else "")
    for label, key, form in (("peak RSS, MiB", "peak_rss_mib", ",.0f"), (metric, "quality", ".5f")):
        if all(runner[key] is None for runner in runners.values()):
            continue
        cells = [label, _number(runners[baseline][key], form)]
        for name in others:
            cells += [_number(runners[name][key], form), _ratio(runners[name]["ratio"].get(key))]
        table.add_row(*cells)
    return table


def legend(runners: Mapping[str, Any]) -> str:
    """Return the legend of the table of stages."""
    lines = ["total: all stages, without imports. whole process: from start to end, with imports."]
    if len(runners) > 1:
        lines.append("ratio: seconds (or MiB) divided by those of the first column; above 1, the first is better.")
    if any(runner["seconds"]["features fit"] is None for runner in runners.values()):
        lines.append("no features fit: that runner fits and transforms in one call, or names its stages differently.")
    if STEADY in runners:
        lines.append(
            f"{STEADY}: the stages repeated in one process after a warm-up. Every other column has a fresh process\n"
            f"per run; the ratios of imports and whole process are relative to {FRESH} in fresh processes."
        )
    return "\n".join(lines)


def extras_table(table: Mapping[str, Any]) -> rich.table.Table:
    """Return the seconds of the encoded cache and of serving."""
    extras = table["extras"]
    shown = _table("")
    for name in (FRESH, "million rows/s"):
        shown.add_column(_text(name), justify="right")
    for name in extras["peers"]:
        shown.add_column(_text(name), justify="right")
        shown.add_column("ratio", justify="right")
    for label in EXTRAS:
        seconds = extras["seconds"][label]
        if seconds is None:
            continue
        cells = [label, _time(extras, label), _number(ratio(table["rows"] / 1e6, seconds), ",.2f")]
        for peer in extras["peers"].values():
            theirs = peer if label == SERVE else {"seconds": None, "cpu_seconds": None}
            cells += [_pair(theirs["seconds"], theirs["cpu_seconds"]), _ratio(ratio(theirs["seconds"], seconds))]
        shown.add_row(*cells)
    return shown


def extras_legend(table: Mapping[str, Any]) -> str:
    """Return the legend of the table of extra stages."""
    lines = [
        "The cache is memory-mapped: pages are read when they are touched, so compare the lines with one pass.",
        "The cache files had just been written, so they were read from memory, not from the disk.",
        "serve: transform of all rows by the fitted features.",
    ]
    return "\n".join([*lines, *table["extras"]["notes"]])


def size_table(document: Mapping[str, Any]) -> rich.table.Table:
    """Return the wall seconds of the whole process by size and runner."""
    shown = _table("rows")
    others = list(document["break_even_rows"])
    shown.add_column(FRESH, justify="right")
    for name in others:
        shown.add_column(_text(name), justify="right")
        shown.add_column("ratio", justify="right")
    for table in document["tables"]:
        runners = table["runners"]
        cells = [f"{table['rows']:,}", _time(runners[FRESH], PROCESS)]
        ours = runners[FRESH]["seconds"][PROCESS]
        for name in others:
            theirs = runners[name]["seconds"][PROCESS]
            cells += [_time(runners[name], PROCESS), _ratio(ratio(theirs, ours))]
        shown.add_row(*cells)
    return shown


def break_even_legend(sizes: Mapping[str, int | None]) -> str:
    """Return for each peer the measured size from which gpupipe is faster."""
    lines = []
    for name, rows in sizes.items():
        found = f"faster than {name} from {rows:,} rows" if rows else f"not faster than {name} at the largest size"
        lines.append(f"break-even: the whole gpupipe process is {found} (of the measured sizes)")
    return "\n".join(lines) or "break-even: no peer to compare with (--peer SCRIPT)"


def _table(first: str) -> rich.table.Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.ASCII2, show_edge=False, pad_edge=False)
    table.add_column(first)
    return table


def _text(value: str) -> rich.text.Text:
    from rich.text import Text

    return Text(printable(value))


def _time(runner: Mapping[str, Any], label: str) -> str:
    return _pair(runner["seconds"][label], runner["cpu_seconds"][label])


def _pair(wall: float | None, cpu: float | None) -> str:
    if wall is None:
        return NONE
    return f"{wall:,.3f} ({_number(cpu, ',.3f')})"


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}x"


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
