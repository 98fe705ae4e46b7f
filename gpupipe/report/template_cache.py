"""Compiled templates, kept in the folder of compiled code: compiling those of a report takes as long as its plots."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from gpupipe_kernels.code_cache import cache_folder, can_keep


class TemplateCache(jinja2.BytecodeCache):
    """Compiled templates in a folder that only this user can write to; without one, nothing is kept.

    jinja2 compares the hash of the source and the version of Python, and ignores a damaged file.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a template, if it is kept."""
        try:
            if can_keep():
                with _path(bucket.key).open("rb") as file:
                    bucket.load_bytecode(file)
        except OSError:
            return

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a template, atomically; do nothing if the folder cannot be written."""
        draft = _path(f"{bucket.key}-{os.getpid()}")
        try:
            if can_keep():
                with draft.open("wb") as file:
                    bucket.write_bytecode(file)
                draft.replace(_path(bucket.key))
        except OSError:
            draft.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return cache_folder() / f"template-{key}.kept"
