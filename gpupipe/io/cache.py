"""On-disk cache of encoded tables, memory-mapped, so that a second run does not read the input files again.

An entry (a folder: see `gpupipe.io.table_files`) is written to a temporary sibling folder and renamed, so it is never
incomplete. Corrupt entries are replaced; the least recently used entries are evicted. Compiled loops use codes of an
entry as indices without checks, so the cache folder must not be writable by other users.

A folder is used only if it is new, empty, or contains only cached tables. It gets a ``CACHEDIR.TAG``, so that backup
programs skip it. An entry is removed only if its name is a key, it has the marker of gpupipe, and it contains no
other file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.io.file_changes import are_unchanged
from gpupipe.io.file_formats import FORMATS, has_reader
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.readers import load_reader
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.origin_settings import ORIGIN_OF
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.table_files import TABLE_FORMAT, read_table, write_table
from gpupipe.names import enumerate_names
from gpupipe.system_errors import TAKEN
from gpupipe.table.blocks import Table
from gpupipe.units import DAY_SECONDS, GIB, MIB, parse_size
from gpupipe_kernels.private_folders import find_exposed_file, find_exposure, make_private

ENTRY = re.compile(r"[0-9a-f]{64}")
DRAFT = re.compile(r"\.draft-[0-9a-z_]{8}")
TABLE_FILE = re.compile(r"format\.json|table\.json|levels\.json|texts\.arrow|(u?int|float|bool)[0-9]*\.npy")
MARKER = "format.json"
MARKER_TEXT = '{"format": "gpupipe-table", "format_version": 1}\n'
TAG = "CACHEDIR.TAG"
TAG_TEXT = """\
Signature: 8a477f597d28d172789f06886806bc55
# This directory is a cache of tables that gpupipe has read; it can be removed at any time.
# About cache directory tags: https://bford.info/cachedir/
"""
COMPILED = "kernels"  # folder of compiled code, next to the tables by default


def require_own(folder: Path, setting: str) -> None:
    """Raise ConfigError if `folder`, configured by `setting`, contains anything except cached tables."""
    if names := find_foreign_names(folder):
        raise ConfigError(
            f"{setting}: the folder contains files that gpupipe did not write: {enumerate_names(names, 3)}",
            where=os.path.abspath(folder),
            fix=f"use a folder for the cache only, such as {folder / 'gpupipe-cache'}",
        )


def find_foreign_names(folder: Path) -> list[str]:
    """Return the names in a folder that are not part of a table cache, hidden names last.

    In a tagged folder, hidden names are ignored: file systems and file managers create them.
    """
    try:
        names = sorted(os.listdir(folder), key=lambda name: (name.startswith("."), name))
    except OSError:  # missing or not accessible: storing an entry reports it
        return []
    is_tagged = _is_tagged(folder)
    return [name for name in names if not (is_tagged and name.startswith(".")) and not _is_known(folder / name)]


def set_up_folder(folder: Path) -> None:
    """Create a cache folder that is private to this user, and tag it.

    Raise OSError if it cannot be created or written.
    """
    make_private(folder)
    with suppress(FileExistsError), (folder / TAG).open("x", encoding="utf8") as file:
        file.write(TAG_TEXT)


def make_draft(folder: Path) -> Path:
    """Create and return a temporary folder, with the marker, in which to write an entry."""
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    (draft / MARKER).write_text(MARKER_TEXT, encoding="utf8")
    return draft


def is_entry(path: Path) -> bool:
    """Return True if a path is an entry or draft that gpupipe wrote; False for links."""
    try:
        if not (ENTRY.fullmatch(path.name) or DRAFT.fullmatch(path.name)) or not stat.S_ISDIR(path.lstat().st_mode):
            return False
        return stat.S_ISREG((path / MARKER).lstat().st_mode) and (path / MARKER).read_text("utf8") == MARKER_TEXT
    except (OSError, ValueError):
        return False


def remove_entry(path: Path) -> None:
    """Remove an entry or draft; other processes see it disappear at once. Anything else is kept.

    Open memory maps of its files stay valid.
    """
    if not _is_removable(path):
        return
    gone = path.with_name(f".draft-{secrets.token_hex(4)}")
    with suppress(OSError):  # another process removed it first
        path.rename(gone)
        _remove_files(gone)
        gone.rmdir()


def make_room(folder: Path, limit_bytes: int) -> None:
    """Remove the least recently used entries until the total size is at most `limit_bytes`."""
    uses = {path: use for path in folder.iterdir() if _is_removable(path) and (use := _last_use(path)) is not None}
    sizes = {path: size_of(path) for path in uses}
    excess = sum(sizes.values()) - limit_bytes
    for path in sorted(uses, key=uses.__getitem__):
        if excess <= 0:
            return
        remove_entry(path)
        excess -= sizes[path]


def size_of(entry: Path) -> int:
    """Return the size of an entry in bytes; files that another process removes meanwhile are not counted."""
    total = 0
    with suppress(FileNotFoundError):
        for path in entry.iterdir():
            total += path.lstat().st_size
    return total


def _last_use(path: Path) -> int | None:
    """Return the time of last use in ns; None for a draft that a process may still be writing."""
    try:
        used = path.lstat().st_mtime_ns
    except FileNotFoundError:
        return None
    is_written = DRAFT.fullmatch(path.name) and used > (time.time() - DAY_SECONDS) * 1e9
    return None if is_written else used


def _is_tagged(folder: Path) -> bool:
    try:
        return (folder / TAG).read_text(encoding="utf8") == TAG_TEXT
    except (OSError, ValueError):
        return False


def _is_known(path: Path) -> bool:
    """Return True if a path may be in a table cache; entries of early versions have no marker."""
    if ENTRY.fullmatch(path.name):
        # Another process may evict the entry and store it again between these checks.
        return is_entry(path) or (path / "table.json").is_file() or not os.path.lexists(path) or is_entry(path)
    return path.name in (TAG, COMPILED, "lost+found") or DRAFT.fullmatch(path.name) is not None


def _is_removable(path: Path) -> bool:
    """Return True if a path is an entry or draft without additional files."""
    try:
        return is_entry(path) and all(
            TABLE_FILE.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode) for file in path.iterdir()
        )
    except FileNotFoundError:  # another process is removing it
        return False


def _remove_files(entry: Path) -> None:
    """Remove the files of a table relative to the open folder, so that no link is followed; the marker last."""
    opened = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in sorted(os.listdir(opened), key=MARKER.__eq__):
            if TABLE_FILE.fullmatch(name):
                os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)


Tables = Mapping[str, JoinedTable]

AUTO_BYTES = 64 * MIB  # smaller inputs are read fast enough without a cache
DEFAULT_LIMIT_BYTES = 20 * GIB
PRIVATE_FOLDER = "use a private folder, or remove the write permission of other users with chmod go-w"
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError)  # raised for a corrupt entry


class TableCache:
    """One entry of the table cache.

    - `folder`: cache folder; created when the first entry is written
    - `key`: hash of everything that the table depends on, 64 hexadecimal digits: see `cache_key`
    - `limit_bytes`: maximum total size of the entries in the folder
    - `files`: input files of the table; if one of them has changed, the table is not stored

    `path`: the folder of this entry.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        key: str,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        files: Sequence[SourceFile] = (),
    ) -> None:
        self.folder, self.files = Path(folder), files
        self.path = self.folder / key
        self.limit_bytes = limit_bytes
        self._notes: list[str] = []

    @classmethod
    def of(cls, source: Source, tables: Tables | None = None, files: InputFiles | None = None) -> TableCache | None:
        """Return the cache entry for a source according to ``source.cache``, or None if it is not to be cached.

        ``auto`` caches inputs of at least 64 MiB. The folder is that of the setting, else ``$GPUPIPE_CACHE``, else
        ``gpupipe`` in the user's cache folder; ``$GPUPIPE_CACHE_LIMIT`` is its maximum size, by default ``20GiB``.
        `files` are the files of the tables, if already listed. Raise DataError or ConfigError if a file is missing, the
        limit is not a size, or the folder contains anything except cached tables.
        """
        if source.cache is False:
            return None
        found = (InputFiles.find(source, tables) if files is None else files).all
        if source.cache == "auto" and sum(file.size for file in data_files(found)) < AUTO_BYTES:
            return None
        if isinstance(source.cache, str) and source.cache != "auto":
            setting, folder = "source.cache", Path(source.cache).expanduser()
        elif named := os.environ.get("GPUPIPE_CACHE"):
            setting, folder = "GPUPIPE_CACHE", Path(named).expanduser()
        else:
            setting, folder = "the default of GPUPIPE_CACHE", _user_cache() / "gpupipe"
        most = _limit_bytes()
        require_own(folder, setting)
        return cls(folder, cache_key(found, source, tables), most, found)

    @property
    def has_entry(self) -> bool:
        """True if the table is in the cache."""
        return not self._exposure and is_entry(self.path)

    def load(self) -> Table | None:
        """Return the table, with read-only memory maps as blocks; None if the entry is missing or corrupt."""
        if not self.has_entry:
            return None
        try:
            table = read_table(self.path)
            os.utime(self.path)  # marks the time of last use
        except DAMAGE as error:
            self._notes.append(f"the cache entry {self.path} is corrupt; the input is read again: {error}")
            remove_entry(self.path)
            return None
        return table

    def store(self, table: Table) -> list[str]:
        """Write `table`; return notes, for example that the entry was corrupt or could not be written."""
        notes, self._notes = self._notes, []
        if self._exposure:
            return [*notes, f"the encoded table is not cached: {self._exposure}; {PRIVATE_FOLDER}"]
        if not are_unchanged(self.files):
            why = "files have changed since the start of the run, or their changes cannot be detected"
            return [*notes, f"the encoded table is not cached: {why}"]
        draft = None
        try:
            if find_foreign_names(self.folder):
                return [*notes, f"the encoded table is not cached: {self.folder} contains other files"]
            set_up_folder(self.folder)
            least, free = sum(block.nbytes for block in table.blocks.values()), shutil.disk_usage(self.folder).free
            if free < least:
                return [*notes, f"the encoded table is not cached: it needs {least:,} bytes; {free:,} bytes are free"]
            draft = make_draft(self.folder)
            write_table(table, draft)
            _sync(draft)
            size = size_of(draft)
            if size > self.limit_bytes:
                limit = f"the limit of the cache is {self.limit_bytes:,} bytes"
                return [*notes, f"the encoded table is not cached: it needs {size:,} bytes; {limit}"]
            make_room(self.folder, self.limit_bytes - size)
            draft.rename(self.path)
        except OSError as error:
            # Another process stored the same table first; a third one may already have evicted it.
            is_taken = draft is not None and error.errno in TAKEN
            if not is_taken or (os.path.lexists(self.path) and not is_entry(self.path)):
                notes.append(f"the encoded table is not cached: {error}")
        finally:
            if draft is not None:
                remove_entry(draft)
        return notes

    @cached_property
    def _exposure(self) -> str:
        """Reason why another user could modify the entry, or ""."""
        try:
            return find_exposure(self.path) or (find_exposed_file(self.path) if os.path.isdir(self.path) else "")
        except OSError:  # not accessible: `store` reports it
            return ""


def cache_key(files: Sequence[SourceFile], source: Source, tables: Tables | None = None) -> str:
    """Return the key of an encoded table: a hash of the files' identities, the settings and the versions.

    The key is unique if the changes of a file cannot be detected.
    """
    identities = [[*file.identity, sorted(file.partitions.items())] for file in files]
    identities += [[secrets.token_hex(16)] for file in files if not file.shows_changes]
    # A URI may have another password, and a pinned version is that of the files.
    of_copies = {"sql", *ORIGIN_OF}
    settings = source.model_dump(mode="json", exclude={"cache", *of_copies})
    joined = [[name, table.model_dump(mode="json", exclude=of_copies)] for name, table in (tables or {}).items()]
    readers = {file.format for file in files if has_reader(file.format) and file.format not in FORMATS}
    versions = [TABLE_FORMAT, pa.__version__, *(load_reader(name).plugin.to_json() for name in sorted(readers))]
    parts = {"versions": versions, "files": identities, "source": settings, "tables": joined}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _sync(entry: Path) -> None:
    """Flush an entry to disk: after a power cut, its files could otherwise have the right size but no content."""
    for path in (*entry.iterdir(), entry):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _limit_bytes() -> int:
    limit = os.environ.get("GPUPIPE_CACHE_LIMIT")
    try:
        return parse_size(limit) if limit else DEFAULT_LIMIT_BYTES
    except ValueError as error:
        raise ConfigError(str(error), where="GPUPIPE_CACHE_LIMIT") from None
