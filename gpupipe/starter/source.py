"""The ``source:`` section: path, format, target, dropped columns and schema."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path

from gpupipe.errors import ConfigError
from gpupipe.io.files import as_text
from gpupipe.io.table_folder import find_matches
from gpupipe.names import SELECTORS, count_noun
from gpupipe.starter.columns import TableColumns
from gpupipe.starter.document import YamlDocument, flow
from gpupipe.starter.sentinels import Sentinel
from gpupipe.starter.target_analysis import TargetAnalysis
from gpupipe.starter.useless_columns import shown

MAX_SHOWN = 4  # classes
IMBALANCED = 0.9  # share of the largest class


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
