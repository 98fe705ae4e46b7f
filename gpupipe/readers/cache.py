"""Encoded tables kept on disk and memory-mapped: the second run of an experiment does not read the files again.

An entry (a folder: see `gpupipe.readers.table_files`) is written to a temporary sibling and renamed, so that it is
whole or not there. One that is damaged all the same is read and written anew. The least recently used entries make
room for new ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.readers.files import SourceFile
from gpupipe.readers.formats import FORMATS
from gpupipe.readers.read import BaseDir, input_files
from gpupipe.readers.settings import JoinedTable, Source
from gpupipe.readers.table_files import TABLE_FORMAT, read_table, write_table
from gpupipe.table.blocks import Table

Tables = Mapping[str, JoinedTable]

AUTO_BYTES = 64 << 20  # below this, reading the files anew is as fast as it needs to be
DEFAULT_LIMIT_BYTES = 20 << 30
UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
         "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
DRAFT = ".draft-"
DAY_SECONDS = 86_400
DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError)  # of a damaged entry


class Cache:
    """The place of one encoded table in a folder of them.

    Parameters
    ----------
    folder : path
        Made when the first entry is written.
    key : str
        Says what the table is made of: see `cache_key`.
    limit_bytes : int
        The most that all entries of the folder may take together.
    key_now : callable, optional
        Returns the key that the input has by now: what was read of files that have changed is not kept.

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
        key_now: Callable[[], str] | None = None,
    ) -> None:
        self.folder, self.key_now = Path(folder), key_now
        self.path = self.folder / key
        self.limit_bytes = limit_bytes
        self._notes: list[str] = []

    @classmethod
    def of(cls, source: Source, tables: Tables | None = None, base_dir: BaseDir = None) -> Cache | None:
        """Return the place that ``source.cache`` asks for, or None if the table of this input is not to be kept.

        ``auto`` keeps inputs of 64 MiB and more. The folder is that of the setting, else ``$GPUPIPE_CACHE``, else
        ``gpupipe`` in the user's cache folder; ``$GPUPIPE_CACHE_LIMIT`` is the size it may have (``20GiB``).

        Raises
        ------
        DataError, ConfigError
            If a file is absent, or the limit is no size.
        """
        if source.cache is False:
            return None

        def found() -> list[SourceFile]:
            return [file for section in (source, *(tables or {}).values()) for file in input_files(section, base_dir)]

        files = found()
        if source.cache == "auto" and sum(file.size for file in files if file.format in FORMATS) < AUTO_BYTES:
            return None
        if isinstance(source.cache, str) and source.cache != "auto":
            folder = Path(base_dir or ".", Path(source.cache).expanduser())
        else:
            folder = Path(os.environ.get("GPUPIPE_CACHE") or _user_cache() / "gpupipe").expanduser()
        limit = os.environ.get("GPUPIPE_CACHE_LIMIT")
        most = _bytes(limit) if limit else DEFAULT_LIMIT_BYTES
        return cls(folder, cache_key(files, source, tables), most, lambda: cache_key(found(), source, tables))

    def load(self) -> Table | None:
        """Return the table, its blocks read-only maps of the files; None if it is not there, or is damaged."""
        if not os.path.isdir(self.path):  # Path.is_dir raises where a name is too long
            return None
        try:
            table = read_table(self.path)
            os.utime(self.path)  # the time of last use
        except DAMAGE as error:
            self._notes.append(f"the cache entry {self.path} was damaged and is written anew: {error}")
            shutil.rmtree(self.path, ignore_errors=True)
            return None
        return table

    def store(self, table: Table) -> list[str]:
        """Write `table`; return what is to be said of it: that the entry was damaged, or could not be written."""
        notes, self._notes = self._notes, []
        if not self._is_of_these_files():
            return [*notes, "the encoded table is not kept: files have changed since the run began"]
        draft = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            least, free = sum(block.nbytes for block in table.blocks.values()), shutil.disk_usage(self.folder).free
            if free < least:
                return [*notes, f"the encoded table is not kept: it has {least:,} bytes, and {free:,} are free"]
            draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=self.folder))
            write_table(table, draft)
            _sync(draft)
            size = _size(draft)
            if size > self.limit_bytes:
                return [*notes, f"the encoded table is not kept: it has {size:,} bytes, more than the cache may have"]
            _make_room(self.folder, self.limit_bytes - size)
            if self.path.exists():  # another process was faster, or what was damaged could not be removed
                shutil.rmtree(self.path, ignore_errors=True)
            draft.rename(self.path)
        except OSError as error:
            notes.append(f"the encoded table is not kept: {error}")
        finally:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)
        return notes

    def _is_of_these_files(self) -> bool:
        try:
            return self.key_now is None or self.key_now() == self.path.name
        except GpupipeError:  # one of them is gone
            return False


def cache_key(files: Sequence[SourceFile], source: Source, tables: Tables | None = None) -> str:
    """Return the key of an encoded table: a hash of the files' identities, the settings and the versions."""
    identities = [[f.path, f.size, f.mtime_ns, f.version, sorted(f.partitions.items())] for f in files]
    settings = source.model_dump(mode="json", exclude={"cache"})
    joined = [[name, table.model_dump(mode="json")] for name, table in (tables or {}).items()]
    versions = [TABLE_FORMAT, pa.__version__]
    parts = {"versions": versions, "files": identities, "source": settings, "tables": joined}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _make_room(folder: Path, limit_bytes: int) -> None:
    """Remove the least recently used entries until the rest has at most `limit_bytes`; open maps of them stay valid."""
    entries = [path for path in folder.iterdir() if path.is_dir() and not _is_being_written(path)]
    sizes = {path: _size(path) for path in entries}
    excess = sum(sizes.values()) - limit_bytes
    for path in sorted(entries, key=lambda p: p.stat().st_mtime_ns):
        if excess <= 0:
            return
        shutil.rmtree(path, ignore_errors=True)
        excess -= sizes[path]


def _sync(entry: Path) -> None:
    """Bring an entry to the disk: after a power cut its files could have the right sizes, and nothing in them."""
    for path in (*entry.iterdir(), entry):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_being_written(path: Path) -> bool:
    """Whether the folder is the draft of a living process; one that is a day old was left by one that was killed."""
    return path.name.startswith(DRAFT) and path.stat().st_mtime > time.time() - DAY_SECONDS


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _bytes(text: str) -> int:
    number = text.strip().rstrip("BbIiKkMmGgTt").strip()
    unit = text.strip()[len(number) :].strip().upper()
    try:
        return int(float(number) * UNITS[unit])
    except (ValueError, KeyError):
        raise ConfigError(f"GPUPIPE_CACHE_LIMIT={text} is no size", fix="write it as in 20GiB or 500MB") from None


def _size(entry: Path) -> int:
    return sum(path.stat().st_size for path in entry.iterdir())
