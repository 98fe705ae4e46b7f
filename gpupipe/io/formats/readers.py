"""Readers of files by format: those of gpupipe, and functions of plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from io import BufferedReader
from typing import Any, BinaryIO

import pyarrow as pa

from gpupipe.entry_points import InstalledPlugin
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_formats import FORMATS, READERS
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource


class PluginReader:
    """Reader of a plug-in, called like those of gpupipe's formats.

    `function` is ``(stream) -> pyarrow.Table``, of an open binary file.
    """

    def __init__(self, plugin: InstalledPlugin, function: Callable[[BinaryIO], Any]) -> None:
        self.plugin, self._function = plugin, function

    def __call__(self, file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes) -> pa.Table:
        """Return the selected columns of a file.

        Raise DataError if the reader fails, or the table has no usable column; ConfigError if the reader returns
        anything but a table.
        """
        with open_file(file) as stream:
            table = self._function(BufferedReader(stream))
            if not isinstance(table, pa.Table):
                raise self.plugin.error(f"returned {type(table).__name__}; expected a pyarrow.Table")
            table.validate(full=True)
        return table.select(usable_names(table.schema, file, wanted, notes))


def load_reader(format_name: str) -> Any:
    """Return the reader of a format: ``read(file, wanted, source, notes) -> pyarrow.Table``.

    Raise ConfigError if it is that of a plug-in, which cannot be loaded.
    """
    if format_name in FORMATS:
        return import_module(FORMATS[format_name].module).read
    function, plugin = READERS.get(format_name), READERS.plugin(format_name)
    assert plugin is not None
    return PluginReader(plugin, function)
