"""The ``source:`` section: where the table is, how it is written, what to predict, what to leave out."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path

from gpupipe.errors import ConfigError
from gpupipe.io.files import as_text
from gpupipe.starter.columns import Columns
from gpupipe.starter.document import Document, flow
from gpupipe.starter.learning import Learning
from gpupipe.starter.useless import shown

SHOWN = 4  # classes
UNBALANCED = 0.9


def write_source(document: Document, columns: Columns, path: str, learning: Learning | None = None) -> None:
    """Write the section; `path` is as the configuration must say it."""
    written = columns.written
    document.line("source:")
    document.line(f"  path: {flow(path)}")
    if written.source.format != "auto":
        document.line(f"  format: {written.source.format}", written.remarks.get("format", ""))
    if written.source.isolate:
        document.line("  isolate: true", "the files are read in a child process first")
    _write_csv(document, columns)
    if learning is not None:
        document.line(f"  target: {flow(learning.goal.target)}", about_target(learning))
        if learning.positive is not None:
            document.line(f"  positive: {flow(learning.positive.label)}", learning.positive.reason)
    _write_drop(document, columns, learning.leaks if learning else {})
    _write_schema(document, columns, learning.hints if learning else {})
    document.blank()


def _write_drop(document: Document, columns: Columns, leaks: Mapping[str, str]) -> None:
    if columns.dropped:
        document.line("  drop:")
    for name, reason in columns.dropped.items():
        if name not in leaks:
            document.line(f"    - {flow(drop_pattern(name))}", reason)
    if leaks:
        document.remark("Suspected of restating the target. To keep one, delete its line:", "    ")
    for name in leaks:
        document.line(f"    - {flow(drop_pattern(name))}", columns.dropped[name])


def _write_schema(document: Document, columns: Columns, hints: Mapping[str, str]) -> None:
    if columns.declared:
        document.line("  schema:")
    for name, declared in columns.declared.items():
        kind = {"kind": declared.kind, "format": declared.format} if declared.format else declared.kind
        document.line(f"    {flow(name)}: {flow(kind)}", declared.reason)
    if hints:
        document.remark("If these integers are names rather than sizes, declare them under schema:", "  ")
    for name, reason in hints.items():
        document.line(f"  #   {flow(name)}: categorical", reason)


def _write_csv(document: Document, columns: Columns) -> None:
    written = columns.written
    if written.csv:
        document.line("  csv:")
    for setting, value in written.csv.items():
        remark = written.remarks.get(setting, "")
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


def about_target(learning: Learning) -> str:
    """Return what values the target has, and how often."""
    labels, counts = learning.goal.labels, learning.counts
    if not counts:
        y = learning.sample.y
        return f"a number, {y.min():g} to {y.max():g}, on average {y.mean():.4g}"
    shares = sorted(zip(labels, counts, strict=True), key=lambda pair: -pair[1])
    said = ", ".join(f"{shown(label)} {n / sum(counts):.1%}" for label, n in shares[:SHOWN])
    more = f" and {len(shares) - SHOWN} others" if len(shares) > SHOWN else ""
    unbalanced = "; unbalanced: accuracy says little" if shares[0][1] > UNBALANCED * sum(counts) else ""
    return f"{said}{more}{unbalanced}"
