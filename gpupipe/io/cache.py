"""Cache of encoded tables on disk, memory-mapped: the second run of an experiment does not read the files again.

An entry (a folder: see `gpupipe.io.table_files`) is written to a temporary sibling and renamed, so that it is
complete or absent. A damaged one is read and written again. The least recently used entries make room for new ones.
Compiled loops index by what an entry says, so the cache is used only where no other user can write.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.io.cache_folder import (
    find_foreign_names,
    is_entry,
    make_draft,
    make_room,
    remove_entry,
    require_own,
    set_up_folder,
    size_of,
)
from gpupipe.io.file_changes import are_unchanged
from gpupipe.io.files import SourceFile
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.table_files import TABLE_FORMAT, read_table, write_table
from gpupipe.system_errors import TAKEN
from gpupipe.table.blocks import Table
from gpupipe.units import GIB, MIB, parse_size
from gpupipe_kernels.private_folders import find_exposed_file, find_exposure

Tables = Mapping[str, JoinedTable]

AUTO_BYTES = 64 * MIB  # below this, reading the files anew is as fast as it needs to be
DEFAULT_LIMIT_BYTES = 20 * GIB
PRIVATE_FOLDER = "name a folder of your own, or take the rights of others away with chmod go-w"
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError)  # of a damaged entry


class TableCache:
    """One entry of the table cache.

    Parameters
    ----------
    folder : path
        Made when the first entry is written.
    key : str
        64 hexadecimal digits that stand for everything the table depends on: see `cache_key`.
    limit_bytes : int
        Maximum size of all entries of the folder together.
    files : sequence of SourceFile
        What the table is made of; once one of them has changed, the table is not stored.

    Attributes
    ----------
    path : Path
        The folder of this entry.
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
        """Return the entry that ``source.cache`` asks for, or None if the table of this input is not to be cached.

        ``auto`` caches inputs of 64 MiB and more. The folder is that of the setting, else ``$GPUPIPE_CACHE``, else
        ``gpupipe`` in the user's cache folder; ``$GPUPIPE_CACHE_LIMIT`` is its maximum size (``20GiB``). `files` are
        those of the tables, if they were listed already.

        Raises
        ------
        DataError, ConfigError
            If a file is absent, the limit is not a size, or the folder holds anything but cached tables.
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
        """Whether the table is in the cache."""
        return not self._exposure and is_entry(self.path)

    def load(self) -> Table | None:
        """Return the table, its blocks read-only maps of the files; None if it is absent, or damaged."""
        if not self.has_entry:
            return None
        try:
            table = read_table(self.path)
            os.utime(self.path)  # the time of last use
        except DAMAGE as error:
            self._notes.append(f"the cache entry {self.path} was damaged, so the input is read again: {error}")
            remove_entry(self.path)
            return None
        return table

    def store(self, table: Table) -> list[str]:
        """Write `table`; return notes, such as that the entry was damaged, or could not be written."""
        notes, self._notes = self._notes, []
        if self._exposure:
            return [*notes, f"the encoded table is not cached: {self._exposure}; {PRIVATE_FOLDER}"]
        if not are_unchanged(self.files):
            why = "files have changed since the run began, or give no time of change"
            return [*notes, f"the encoded table is not cached: {why}"]
        draft = None
        try:
            if find_foreign_names(self.folder):
                return [*notes, f"the encoded table is not cached: {self.folder} holds files of others"]
            set_up_folder(self.folder)
            least, free = sum(block.nbytes for block in table.blocks.values()), shutil.disk_usage(self.folder).free
            if free < least:
                return [*notes, f"the encoded table is not cached: it has {least:,} bytes, and {free:,} are free"]
            draft = make_draft(self.folder)
            write_table(table, draft)
            _sync(draft)
            size = size_of(draft)
            if size > self.limit_bytes:
                return [*notes, f"the encoded table is not cached: it has {size:,} bytes, more than the cache may have"]
            make_room(self.folder, self.limit_bytes - size)
            draft.rename(self.path)
        except OSError as error:
            # Another process was faster with the same table, which a third one may have evicted meanwhile.
            is_taken = draft is not None and error.errno in TAKEN
            if not is_taken or (os.path.lexists(self.path) and not is_entry(self.path)):
                notes.append(f"the encoded table is not cached: {error}")
        finally:
            if draft is not None:
                remove_entry(draft)
        return notes

    @cached_property
    def _exposure(self) -> str:
        """Why another user could change the entry, or ""."""
        try:
            return find_exposure(self.path) or (find_exposed_file(self.path) if os.path.isdir(self.path) else "")
        except OSError:  # it cannot be reached: storing says so
            return ""


def cache_key(files: Sequence[SourceFile], source: Source, tables: Tables | None = None) -> str:
    """Return the key of an encoded table: a hash of the files' identities, the settings and the versions.

    A file whose changes do not show gives another key each time.
    """
    identities = [[*file.identity, sorted(file.partitions.items())] for file in files]
    identities += [[secrets.token_hex(16)] for file in files if not file.shows_changes]
    settings = source.model_dump(mode="json", exclude={"cache"})
    joined = [[name, table.model_dump(mode="json")] for name, table in (tables or {}).items()]
    versions = [TABLE_FORMAT, pa.__version__]
    parts = {"versions": versions, "files": identities, "source": settings, "tables": joined}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _sync(entry: Path) -> None:
    """Bring an entry to the disk: after a power cut its files could have the right sizes, and nothing in them."""
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
