"""The ``source:`` section: where the table is, how it is written, what to predict, what to leave out."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path

from gpupipe.errors import ConfigError
from gpupipe.io.files import as_text
from gpupipe.starter.columns import TableColumns
from gpupipe.starter.document import YamlDocument, flow
from gpupipe.starter.target_analysis import TargetAnalysis
from gpupipe.starter.useless_columns import shown

SHOWN = 4  # classes
UNBALANCED = 0.9


def write_source(
    document: YamlDocument, columns: TableColumns, path: str, analysis: TargetAnalysis | None = None
) -> None:
    """Write the section; `path` is as the configuration must say it."""
    source_table = columns.source_table
    document.line("source:")
    document.line(f"  path: {flow(path)}")
    if source_table.source.format != "auto":
        document.line(f"  format: {source_table.source.format}", source_table.remarks.get("format", ""))
    if source_table.source.isolate:
        document.line("  isolate: true", "the files are read in a child process first")
    _write_csv(document, columns)
    if analysis is not None:
        document.line(f"  target: {flow(analysis.goal.target)}", about_target(analysis))
        if analysis.positive is not None:
            document.line(f"  positive: {flow(analysis.positive.label)}", analysis.positive.reason)
    _write_drop(document, columns, analysis.leaks if analysis else {})
    _write_schema(document, columns, analysis.hints if analysis else {})
    document.blank()


def _write_drop(document: YamlDocument, columns: TableColumns, leaks: Mapping[str, str]) -> None:
    if columns.dropped:
        document.line("  drop:")
    for name, reason in columns.dropped.items():
        if name not in leaks:
            document.line(f"    - {flow(drop_pattern(name))}", reason)
    if leaks:
        document.remark("Suspected of restating the target. To keep one, delete its line:", "    ")
    for name in leaks:
        document.line(f"    - {flow(drop_pattern(name))}", columns.dropped[name])


def _write_schema(document: YamlDocument, columns: TableColumns, hints: Mapping[str, str]) -> None:
    if columns.declared:
        document.line("  schema:")
    for name, declared in columns.declared.items():
        kind = {"kind": declared.kind, "format": declared.format} if declared.format else declared.kind
        document.line(f"    {flow(name)}: {flow(kind)}", declared.reason)
    if hints:
        document.remark("If these integers are names rather than sizes, declare them under schema:", "  ")
    for name, reason in hints.items():
        document.line(f"  #   {flow(name)}: categorical", reason)


def _write_csv(document: YamlDocument, columns: TableColumns) -> None:
    source_table = columns.source_table
    if source_table.csv:
        document.line("  csv:")
    for setting, value in source_table.csv.items():
        remark = source_table.remarks.get(setting, "")
        if isinstance(value, list):
            document.list(f"    {setting}", value, remark)
        else:
            document.line(f"    {setting}: {flow(value)}", remark)


def path_from(path: str, config: Path) -> str:
    """Return `path` as the configuration must write it: in full where that will be in another folder.

    Raises
    ------
    ConfigError
        If it is not UTF-8 text, and no pattern means this file alone.
    """
    is_here = config.absolute().parent == Path().absolute()
    full = path if is_here or "://" in path else str(Path(path).expanduser().absolute())
    text = as_text(full)
    if text != full and (Path(full).is_dir() or len(glob.glob(text, recursive=True)) != len(glob.glob(full) or [full])):
        what = f"the name is not UTF-8, which a configuration cannot hold, and {text} does not mean the same"
        raise ConfigError(what, where=full, fix="rename the file or folder")
    return text


def drop_pattern(name: str) -> str:
    """Return what means exactly this column in ``drop:``, whose entries are globs and selectors."""
    pattern = glob.escape(name)
    return f"[@]{pattern[1:]}" if pattern.startswith("@") else pattern


def about_target(analysis: TargetAnalysis) -> str:
    """Return what values the target has, and how often."""
    labels, counts = analysis.goal.labels, analysis.counts
    if not counts:
        y = analysis.sample.y
        return f"a number, {y.min():g} to {y.max():g}, on average {y.mean():.4g}"
    shares = sorted(zip(labels, counts, strict=True), key=lambda pair: -pair[1])
    said = ", ".join(f"{shown(label)} {n / sum(counts):.1%}" for label, n in shares[:SHOWN])
    more = f" and {len(shares) - SHOWN} others" if len(shares) > SHOWN else ""
    unbalanced = "; unbalanced: accuracy says little" if shares[0][1] > UNBALANCED * sum(counts) else ""
    return f"{said}{more}{unbalanced}"
