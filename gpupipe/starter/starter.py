"""Output of ``gpupipe init``: a starter configuration, or without a target a list of the columns."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from shlex import quote

from gpupipe.backends import DeviceReport
from gpupipe.errors import ConfigError
from gpupipe.io.files import as_text
from gpupipe.io.settings import TableSource
from gpupipe.io.table_folder import find_matches
from gpupipe.names import SELECTORS, count_noun, enumerate_names
from gpupipe.report.text import printable
from gpupipe.starter.choices import gpu_comments, write_evaluation, write_features, write_models, write_split
from gpupipe.starter.columns import TableColumns, inspect_columns
from gpupipe.starter.document import YamlDocument, flow
from gpupipe.starter.evidence import MIN_ROWS
from gpupipe.starter.power import MAX_TOGETHER
from gpupipe.starter.sentinels import Sentinel
from gpupipe.starter.series import Series
from gpupipe.starter.target import suggest_targets
from gpupipe.starter.target_analysis import TargetAnalysis, analyse_target
from gpupipe.starter.useless_columns import shown

MAX_SHOWN = 4  # classes
IMBALANCED = 0.9  # share of the largest class

MAX_LINES = 20  # of one kind in the summary
EXAMPLES = 3  # values of a column in the list of columns
LONGEST_NAME = 40


@dataclass(frozen=True)
class Starter:
    """A configuration and a summary of it in a few lines."""

    text: str
    summary: Sequence[str]


def make_starter(
    path: str, target: str, config: Path, device: DeviceReport, source: TableSource | None = None
) -> Starter:
    """Return a configuration for predicting a column of a table.

    - `path`: a file, glob, folder or URL.
    - `target`: the name of the column; in a file without a header, also its position (``15``, ``-1``, ``last``).
    - `config`: the path of the configuration, to which paths in it are relative.
    - `device`: the device report of the target machine; if its GPU is usable, the models are those that it can train.
    - `source`: the format settings given by the user; the others are detected.

    Raise DataError if the table cannot be read. Raise ConfigError if the column does not exist, or cannot be a target.
    """
    analysis = analyse_target(inspect_columns(path, source), target)
    document = YamlDocument()
    _write_title(document, analysis, path, config)
    write_source(document, analysis.columns, path_from(path, config), analysis)
    write_split(document, analysis)
    write_features(document, analysis.columns, analysis)
    write_models(document, analysis, device)
    write_evaluation(document, analysis.goal.task)
    document.line("output: runs/", "each run makes a directory here")
    summary = [*_summary(analysis), *gpu_comments(device)] if device.gpu.usable else _summary(analysis)
    return Starter(document.text(), summary)


def make_clustering_starter(path: str, config: Path, source: TableSource | None = None) -> Starter:
    """Return a configuration for clustering the rows; parameters and errors as for `make_starter`."""
    columns = inspect_columns(path, source)
    document = YamlDocument()
    document.comment(f"Clusters of similar rows in {Path(path).name}: {count_noun(columns.n_rows, 'row')}.")
    _write_commands(document, config)
    document.blank()
    write_source(document, columns, path_from(path, config))
    write_features(document, columns)
    document.line("models:")
    document.line("  - kmeans: {n_clusters: 8}", "try other numbers and compare the silhouette")
    document.blank()
    write_evaluation(document, "clustering")
    document.line("output: runs/", "each run makes a directory here")
    return Starter(document.text(), _summary_of_columns(columns))


def _write_title(document: YamlDocument, analysis: TargetAnalysis, path: str, config: Path) -> None:
    columns, goal = analysis.columns, analysis.goal
    document.comment(
        f"Predict {goal.target} ({goal.task}) from {len(analysis.inputs)} of {len(columns.facts)} columns of "
        f"{Path(path).name}: {count_noun(analysis.n_known, 'row')}."
    )
    _write_commands(document, config)
    for note in _notes(analysis):
        document.comment(note)
    document.blank()


def _write_commands(document: YamlDocument, config: Path) -> None:
    document.line("#")
    document.line(printable(f"#   gpupipe run {quote(str(config))}"))
    document.line("#")
    document.comment("Written by gpupipe init from the values alone: review drop and schema.")


def _notes(analysis: TargetAnalysis) -> list[str]:
    columns, notes = analysis.columns, []
    notes.append(f"Drop every column that is not known yet at the time when {analysis.goal.target} is predicted.")
    if not columns.source_table.has_header:
        notes.append(f"The file has no header: its columns are named c1 to c{len(columns.facts)} here.")
    if missing := columns.n_rows - analysis.n_known:
        are = "has no" if missing == 1 else "have no"
        end = "is dropped" if missing == 1 else "are dropped"
        notes.append(f"{missing:,} of {columns.n_rows:,} rows {are} {analysis.goal.target} and {end}.")
    if columns.n_repeated:
        duplicates = count_noun(columns.n_repeated, "row", "is a duplicate", "are duplicates")
        notes.append(f"{duplicates} of earlier rows.")
    if not analysis.sample.is_all:
        notes.append(f"Leaks, categories and long tails were searched in a sample of {len(analysis.sample.y):,} rows.")
    if len(analysis.sample.columns) > MAX_TOGETHER and len(analysis.sample.y) >= MIN_ROWS:
        notes.append(f"Leaks were compared with a model of the {MAX_TOGETHER:,} strongest columns only.")
    if analysis.unchecked:
        names = enumerate_names(analysis.unchecked)
        notes.append(f"These columns may restate {analysis.goal.target}, but were not compared with a model: {names}.")
    for name, found in columns.sentinels.items():
        if name in columns.kept and columns.kind(name) == "datetime":
            notes.append(
                f"In {name} {found.text} ({count_noun(found.n_rows, 'row')}): write nulls into the table instead."
            )
    for name, evidence in analysis.warnings.items():
        notes.append(f"{name} dominates the prediction ({evidence}): if it is not known in time, add it to drop.")
    return notes


def _summary(analysis: TargetAnalysis) -> list[str]:
    goal = analysis.goal
    first = f"{goal.task}: {goal.target}, {about_target(analysis)}; {count_noun(analysis.n_known, 'row')}"
    by = analysis.series or analysis.entity
    split = [f"split by {by.time if isinstance(by, Series) else by.name}: {by.evidence}"] if by else []
    kept = ["to keep a suspected leak, delete its line under drop"] if analysis.leaks else []
    return [first, *split, *_summary_of_columns(analysis.columns), *kept, *_notes(analysis)[1:]]


def _summary_of_columns(columns: TableColumns) -> list[str]:
    dropped = [f"dropped {name}: {reason}" for name, reason in columns.dropped.items()]
    declared = [f"{name} is {found.kind}: {found.reason}" for name, found in columns.declared.items()]
    sentinels = [
        f"{name}: {each.text}, in {count_noun(each.n_rows, 'row')}" for name, each in columns.sentinels.items()
    ]
    return [*_cut(dropped, "dropped"), *_cut(declared, "declared"), *_cut(sentinels, "with sentinels")]


def _cut(lines: list[str], what: str) -> list[str]:
    """Return the first `MAX_LINES` lines, and the number of further ones."""
    more = len(lines) - MAX_LINES
    last = f"and {count_noun(more, 'more column')} {what}: see the configuration"
    return lines if more <= 0 else [*lines[:MAX_LINES], last]


def list_columns(path: str, source: TableSource | None = None) -> str:
    """Return a text with a line for each column of the table at `path`, and suggestions for ``--target``.

    Raise DataError if the table cannot be read.
    """
    columns = inspect_columns(path, source)
    width = min(LONGEST_NAME, max(map(len, columns.facts)))
    header = "" if columns.source_table.has_header else "; the file has no header, so they are numbered"
    lines = [
        f"{Path(path).name}: {count_noun(columns.n_rows, 'row')}, {count_noun(len(columns.facts), 'column')}{header}",
        "",
    ]
    lines += [_line(name, columns, width) for name in columns.facts]
    lines += ["", *_suggestions(path, columns)]
    return "\n".join(map(printable, lines))


def _line(name: str, columns: TableColumns, width: int) -> str:
    facts = columns.facts[name]
    missing = f", {facts.n_null:,} missing" if facts.n_null else ""
    about = columns.dropped.get(name) or ", ".join(shown(v) for v in facts.distinct.slice(0, EXAMPLES).to_pylist())
    return f"  {name:{width}}  {columns.kind(name):11}  {facts.n_distinct:,} distinct{missing}; {about}"


def _suggestions(path: str, columns: TableColumns) -> list[str]:
    likely = suggest_targets(columns)
    if not likely:
        return [f"Choose a target: gpupipe init {quote(path)} --target COLUMN"]
    lines = ["Choose a target. Likely ones:", ""]
    command = f"gpupipe init {quote(path)} --target"
    return lines + [f"  {command} {quote(name)}  # {reason}" for name, reason in likely.items()]


def write_source(
    document: YamlDocument, columns: TableColumns, path: str, analysis: TargetAnalysis | None = None
) -> None:
    """Write the section; `path` is relative to the configuration."""
    source_table = columns.source_table
    document.line("source:")
    document.line(f"  path: {flow(path)}")
    if source_table.source.format != "auto":
        document.line(f"  format: {source_table.source.format}", source_table.comments.get("format", ""))
    if source_table.source.isolate:
        document.line("  isolate: true", "read the files in a child process first")
    if source_table.source.outside_files:
        document.line("  outside_files: true", "read files outside of the folder to which links lead")
    _write_csv(document, columns)
    if analysis is not None and (target := analysis.goal.target) is not None:
        document.line(f"  target: {flow(target)}", about_target(analysis))
        if analysis.positive is not None:
            document.line(f"  positive: {flow(analysis.positive.label)}", analysis.positive.reason)
        _write_where(document, columns.sentinels.get(target), target)
    _write_drop(document, columns, analysis.leaks if analysis else {})
    _write_schema(document, columns, analysis.hints if analysis else {})
    document.blank()


def _write_where(document: YamlDocument, sentinel: Sentinel | None, target: str) -> None:
    """Write the filter of rows whose target is a sentinel: a model of the others would not learn from it."""
    if sentinel is not None:
        name = target if target.isidentifier() and not iskeyword(target) else f"`{target}`"
        where = " and ".join(f"{name} != {value!r}" for value in sentinel.values)
        document.line(
            f"  where: {flow(where)}", f"{sentinel.text}: {count_noun(sentinel.n_rows, 'row')} without a target"
        )


def _write_drop(document: YamlDocument, columns: TableColumns, leaks: Mapping[str, str]) -> None:
    if columns.dropped:
        document.line("  drop:")
    for name, reason in columns.dropped.items():
        if name not in leaks:
            document.line(f"    - {flow(drop_pattern(name))}", reason)
    if leaks:
        document.comment("Suspected of restating the target. To keep a column, delete its line:", "    ")
    for name in leaks:
        document.line(f"    - {flow(drop_pattern(name))}", columns.dropped[name])


def _write_schema(document: YamlDocument, columns: TableColumns, hints: Mapping[str, str]) -> None:
    if columns.declared:
        document.line("  schema:")
    for name, declared in columns.declared.items():
        kind = {"kind": declared.kind, "format": declared.format} if declared.format else declared.kind
        document.line(f"    {flow(name)}: {flow(kind)}", declared.reason)
    if hints:
        document.comment("If these integers are categories rather than quantities, declare them under schema:", "  ")
    for name, reason in hints.items():
        document.line(f"  #   {flow(name)}: categorical", reason)


def _write_csv(document: YamlDocument, columns: TableColumns) -> None:
    source_table = columns.source_table
    if source_table.csv:
        document.line("  csv:")
    for setting, value in source_table.csv.items():
        comment = source_table.comments.get(setting, "")
        if isinstance(value, list):
            document.list(f"    {setting}", value, comment)
        else:
            document.line(f"    {setting}: {flow(value)}", comment)


def path_from(path: str, config: Path) -> str:
    """Return `path` as written in the configuration: absolute if that is in another folder.

    Raise ConfigError if it is not UTF-8 text, and no pattern matches this file alone.
    """
    is_here = config.absolute().parent == Path().absolute()
    full = path if is_here or "://" in path else str(Path(path).expanduser().absolute())
    text = as_text(full)
    if text != full and (Path(full).is_dir() or len(list(find_matches(text))) != len(glob.glob(full) or [full])):
        what = f"the path is not UTF-8, so a configuration cannot contain it, and {text} matches other files"
        raise ConfigError(what, where=full, fix="rename the file or folder")
    return text


def drop_pattern(name: str) -> str:
    """Return the ``drop:`` pattern that matches exactly this column, with special characters escaped."""
    pattern = glob.escape(name)
    return f"[@]{pattern[1:]}" if name in SELECTORS else pattern


def about_target(analysis: TargetAnalysis) -> str:
    """Return a description of the target values and their frequencies."""
    labels, counts = analysis.goal.labels, analysis.counts
    if not counts:
        y = analysis.sample.y
        return f"a number from {y.min():g} to {y.max():g}, mean {y.mean():.4g}"
    shares = sorted(zip(labels, counts, strict=True), key=lambda pair: -pair[1])
    listed = ", ".join(f"{shown(label)} {n / sum(counts):.1%}" for label, n in shares[:MAX_SHOWN])
    more = f" and {len(shares) - MAX_SHOWN} others" if len(shares) > MAX_SHOWN else ""
    imbalanced = "; imbalanced: accuracy is not informative" if shares[0][1] > IMBALANCED * sum(counts) else ""
    return f"{listed}{more}{imbalanced}"
