"""Compiled templates, kept in the folder of compiled code: compiling those of a report takes as long as its plots."""

from __future__ import annotations

from contextlib import suppress

import jinja2
from jinja2.bccache import Bucket

from gpupipe_kernels.code_cache import cache_folder, can_keep


class TemplateCache(jinja2.FileSystemBytecodeCache):
    """Compiled templates in a folder that only this user can write to; without one, nothing is kept.

    jinja2 compares the hash of the source and the version of Python, and ignores a damaged file.
    """

    def __init__(self) -> None:
        super().__init__(str(cache_folder()), "template-%s.kept")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a template, if it is kept."""
        if can_keep():
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a template, atomically; do nothing if the folder cannot be written."""
        if can_keep():
            with suppress(OSError):
                super().dump_bytecode(bucket)
