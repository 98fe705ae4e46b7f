"""Registries of file formats, readers of plug-ins and generators; their modules are imported on first use."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any

from gpupipe.entry_points import READERS as PLUGINS
from gpupipe.entry_points import InstalledPlugin
from gpupipe.errors import DataError
from gpupipe.registry import Registry


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    `module`: module with ``read(file, wanted, source, notes) -> pyarrow.Table``. `compressed`: True if files with a
    second suffix such as ``.gz`` or ``.zst`` are decompressed.
    """

    module: str
    suffixes: tuple[str, ...]
    compressed: bool = False


PACKED = 5  # typical compression ratio of text; the actual ratio is known only after decompression
FORMATS: dict[str, FileFormat] = {
    "csv": FileFormat("gpupipe.io.formats.csv.reader", (".csv", ".tsv", ".tab", ".psv"), compressed=True),
    "parquet": FileFormat("gpupipe.io.formats.parquet", (".parquet", ".pq", ".parq")),
    "jsonl": FileFormat("gpupipe.io.formats.jsonl.reader", (".jsonl", ".ndjson"), compressed=True),
    "orc": FileFormat("gpupipe.io.formats.orc", (".orc",)),
    "arrow": FileFormat("gpupipe.io.formats.arrow", (".arrow", ".feather", ".ipc", ".arrows")),
}

RESERVED = frozenset({"auto", "generator", "hook", "memory"})  # used as formats of tables that are not in such files


def require_function(plugin: InstalledPlugin, found: Any) -> Any:
    """Return the reader of a plug-in; raise TypeError if its object is not a function."""
    if not callable(found) or isinstance(found, type):
        raise TypeError("a function of an open file that returns a pyarrow.Table")
    return found


READERS: Registry[Any] = Registry("reader", group=PLUGINS, adapt="gpupipe.io.file_formats:require_function")
"""Readers of plug-ins: functions of an open file. The name of one is the format, and the suffix of its files."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".xz": "xz", ".zip": "zip"}

GENERATORS: dict[str, str] = {
    "churn": "gpupipe.datasets.churn.generator:customers",
    "churn_events": "gpupipe.datasets.churn.generator:events",
}


def compression_of(path: str) -> str | None:
    """Return the name of the compression given by the last suffix of `path`, or None."""
    return next((codec for suffix, codec in COMPRESSIONS.items() if path.lower().endswith(suffix)), None)


def format_of(path: str) -> str | None:
    """Return the name of the format given by the suffix of `path`, or None if it is not known.

    >>> format_of("a/customers.CSV.gz"), format_of("notes.txt")
    ('csv', None)
    """
    name = path.lower()
    compressed = compression_of(name) is not None
    if compressed:
        name = name.rsplit(".", 1)[0]
    for format_name, file_format in FORMATS.items():
        if name.endswith(file_format.suffixes) and (file_format.compressed or not compressed):
            return format_name
    suffix = name.rpartition("/")[2].rpartition(".")[2]
    return suffix if not compressed and suffix != name and has_reader(suffix) else None


def has_reader(format_name: str) -> bool:
    """Return whether files of that format have a reader, of gpupipe or of a plug-in."""
    return format_name in FORMATS or (format_name not in RESERVED and format_name in READERS)


def require_format(path: str, stated: str) -> str:
    """Return the format `stated`, or that of the suffix if `stated` is ``auto``.

    Raise DataError if it is ``auto`` and the suffix is not known.
    """
    found = format_of(path) if stated == "auto" else stated
    if found is None:
        suffixes = chain.from_iterable(file_format.suffixes for file_format in FORMATS.values())
        known = ", ".join([*suffixes, *(f".{name}" for name in READERS.known_names())])
        raise DataError(
            "the file format cannot be determined from the file name",
            where=path,
            fix=f"set it, as in source.format: csv, or use one of the suffixes {known}; csv and jsonl may also be "
            f"compressed ({', '.join(COMPRESSIONS)})",
        )
    return found


def load_generator(name: str) -> Any:
    """Return a generator function ``(rows, seed, columns, start=0) -> pyarrow.Table``."""
    module, function = GENERATORS[name].split(":")
    return getattr(import_module(module), function)
