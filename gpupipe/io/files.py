"""File discovery: list the files of a path, glob, folder, hive-partitioned folder or fsspec URL."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gpupipe.errors import DataError, GpupipeError, RowSizeError, did_you_mean
from gpupipe.io.file_formats import format_of, require_format
from gpupipe.io.network_errors import network_error
from gpupipe.io.settings import TableSource
from gpupipe.io.table_copy import TableCopy
from gpupipe.io.table_folder import FIX, Outside, TableFolder, find_matches
from gpupipe.io.zip_members import member_format
from gpupipe.system_errors import OPEN_FILES, THREADS, memory_shortage, shortage

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
PLUGINS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
           "http": "aiohttp", "https": "aiohttp", "hdfs": "pyarrow", "sftp": "paramiko", "ssh": "paramiko",
           "smb": "smbprotocol"}  # fmt: skip

VERSIONS = ("ETag", "etag", "md5Hash", "Content-MD5", "Digest", "Last-Modified")  # keys used by fsspec plugins
DECRYPT = "decrypt it first; if only some columns are encrypted, exclude them with drop"
SPECIAL_FILES = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True)
class SourceFile:
    """A file to read, and its identity.

    - `path`: absolute for a local file; in the form of its file system for a remote one
    - `size`: bytes
    - `mtime_ns`: time of the last modification; 0 if the file system does not provide it
    - `version`: entity tag or checksum of a remote file, or ``""``
    - `partitions`: columns and values from hive-partitioned folder names such as ``year=2024/month=1``
    - `remote`: None for a local file
    - `ctime_ns`, `inode`: of a local file: time of its last change of any kind, which programs cannot set, and its
      inode number
    - `copy`: the table that the file is a copy of: see `gpupipe.io.external`
    - `folder`: the local folder that the file must be in wherever it is opened; ``""`` if it may be anywhere
    """

    path: str
    size: int
    mtime_ns: int
    format: str
    version: str = ""
    partitions: dict[str, str | None] = field(default_factory=dict)
    remote: Any = field(default=None, compare=False, repr=False)
    ctime_ns: int = field(default=0, compare=False)
    inode: int = field(default=0, compare=False)
    copy: TableCopy | None = None
    folder: str = field(default="", compare=False, repr=False)

    @classmethod
    def local(cls, path: str, status: os.stat_result, file_format: str, **more: Any) -> SourceFile:
        """Return the local file at `path` with the given `os.stat` result; `more` are further attributes."""
        more |= {"ctime_ns": status.st_ctime_ns, "inode": status.st_ino}
        return cls(path, status.st_size, status.st_mtime_ns, file_format, **more)

    @property
    def identity(self) -> tuple[str, int, int, str, int, int]:
        """Tuple that differs between any two states of the file seen under its path.

        Size and mtime are not enough: ``cp -p`` and ``touch -d`` write new content with an old time. Copies of equal
        rows are the same file.
        """
        if self.copy is not None:
            return self.copy.label, 0, 0, self.copy.pin, 0, 0
        return self.path, self.size, self.mtime_ns, self.version, self.ctime_ns, self.inode

    @property
    def label(self) -> str:
        """Name of the file for messages, or of the table that it is a copy of."""
        return mask(self.path) if self.copy is None else self.copy.label

    @property
    def shows_changes(self) -> bool:
        """True if `identity` has more than the size; some remote file systems provide neither a time nor a tag."""
        return self.remote is None or bool(self.mtime_ns or self.version)


@contextmanager
def convert_read_errors(path: str) -> Iterator[None]:
    """Convert any error of a library that reads `path` into one DataError that names the file."""
    try:
        yield
    except GpupipeError:
        raise
    except Exception as error:  # errors of Arrow and of fsspec plugins have no common base class
        raise _read_error(error, path) from error


def _read_error(error: Exception, path: str) -> GpupipeError:
    if "://" in path and (found := network_error(error, path, mask(path))) is not None:
        return found
    if isinstance(error, PermissionError):
        fix = "grant the current user read permission"
        return DataError("permission to read the file was denied", where=mask(path), fix=fix)
    if (short := shortage(error, (THREADS, OPEN_FILES)) or memory_shortage(error)) is not None:
        short.place(mask(path))
        return short
    # A message of pyarrow 26.0, which raises OSError for all unreadable Parquet files.
    if re.search("encrypt|decrypt", str(error), re.IGNORECASE):
        return DataError("the file is encrypted", where=mask(path), fix=DECRYPT)
    # A message of pyarrow 26.0, which raises ArrowInvalid for all malformed files.
    kind = RowSizeError if "straddling object" in str(error) else DataError
    fix = "check that the file is complete and in the expected format"
    return kind(f"the file cannot be read: {reason_of(error)}", where=mask(path), fix=fix)


def reason_of(error: BaseException | None) -> str:
    """Return a library's message on one line, with secrets masked, cut to 300 characters."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return mask(reason[:300])


def find_files(source: TableSource) -> list[SourceFile]:
    """Return the files of a source with a ``path``, without reading them.

    Paths are in the order given, the files of a path sorted. Raise DataError if a path has no files, has files of
    several formats, or cannot be accessed.
    """
    files = []
    for path in source.paths:
        outside: Outside = "read" if source.outside_files else "refuse"
        path = path.removeprefix("file://").removeprefix("local://")  # links of local files are checked
        found = (_remote_files if "://" in path else _local_files)(path, source.format, outside)
        formats = sorted({file.format for file in found})
        if len(formats) > 1:
            raise DataError(
                f"the folder has files of several formats: {', '.join(formats)}",
                where=mask(path),
                fix="set the format, as in source.format: parquet, or use a glob such as *.parquet",
            )
        files += found
    return files


def _local_files(path: str, stated: str, outside: Outside) -> list[SourceFile]:
    full = Path(path).expanduser().absolute()
    with convert_read_errors(str(full)):  # for example a name that is too long, or an unreadable folder
        if full.is_dir():
            _require_plain_folder(full)
            folder = TableFolder(str(full), outside)
            names = _readable(_sorted_paths(folder.walk()), str(full), stated)
            return [_local_file(name, stated, str(full), folder) for name in names]
        if os.path.lexists(full):
            return [_local_file(str(full), stated, str(full.parent))]
        if glob.has_magic(path):
            names = [hit for hit in _sorted_paths(find_matches(str(full), outside)) if not os.path.isdir(hit)]
            if names:
                root = _fixed_part(str(full))
                folder = TableFolder(root or "/", outside)
                return [_local_file(name, stated, root, folder) for name in names]
            raise DataError("no file matches the pattern", where=str(full), fix="check it; ** also matches subfolders")
        raise _no_such_file(full)


def _require_plain_folder(folder: Path) -> None:
    """Raise DataError for the folder of a Delta or Iceberg table: it also has files with rows that were deleted."""
    if (folder / "_delta_log").is_dir():
        raise DataError("the folder is a Delta table", where=str(folder), fix="use delta: instead of path:")
    if next((folder / "metadata").glob("*.metadata.json"), None) is not None:
        fix = "use iceberg: NAMESPACE.TABLE and its catalog: instead of path:"
        raise DataError("the folder is an Iceberg table", where=str(folder), fix=fix)


def _sorted_paths(paths: Iterable[str]) -> list[str]:
    """Return paths sorted by their components: ``a/z`` is before ``a-b/c``."""
    return sorted(paths, key=lambda path: path.split("/"))


def _is_hidden(name: str) -> bool:
    """Return True if the name marks a file or folder without data: ``.git``, ``_SUCCESS``, ``_temporary``."""
    return name[:1] in (".", "_")


def _local_file(name: str, stated: str, root: str, folder: TableFolder | None = None) -> SourceFile:
    status = os.lstat(name)
    is_link = stat.S_ISLNK(status.st_mode)
    try:
        status = os.stat(name) if is_link else status
    except OSError as error:
        target = "itself" if error.errno == errno.ELOOP else f"{os.readlink(name)}, which does not exist"
        fix = "fix or remove the link"
        raise DataError(f"the symbolic link points to {target}", where=name, fix=fix) from None
    if not stat.S_ISREG(status.st_mode):  # reading a pipe could block for ever; a device may have no end
        kind = SPECIAL_FILES.get(stat.S_IFMT(status.st_mode), "a special file")
        raise DataError(f"expected a regular file, found {kind}", where=name, fix="write the rows to a file")
    if folder is not None:  # before the first byte is read, which is that of an archive below
        folder.require(name, is_link)
    inside = "" if folder is None or folder.outside == "read" else folder.path
    stated = (format_of(name) or member_format(name) or stated) if stated == "auto" else stated
    partitions = _partitions(name, root)
    return SourceFile.local(name, status, require_format(name, stated), partitions=partitions, folder=inside)


def _no_such_file(path: Path) -> DataError:
    hint = ""
    if path.parent.is_dir():
        hint = did_you_mean(path.name, os.listdir(path.parent))
    elif not path.parent.exists():
        hint = f"the folder {path.parent} does not exist"
    fix = "check the path: it is relative to the working directory, or to the configuration file that contains it"
    return DataError("no such file or folder", where=str(path), fix=f"{hint}; {fix}" if hint else fix)


def _remote_files(url: str, stated: str, outside: Outside) -> list[SourceFile]:
    with convert_read_errors(url):
        system, path = _file_system(url)
        system.invalidate_cache()  # a cached listing of an earlier run may be outdated
        # An HTTP URL names one file, even if its query contains glob characters.
        if glob.has_magic(path) and not url.startswith(("http://", "https://")):
            listed, root = system.glob(path, detail=True), _fixed_part(path)
            names = sorted(name for name, info in listed.items() if info["type"] == "file")
        elif (info := _info_of_file(system, path, url)) is not None:
            listed = {path: info}
            root = path.rpartition("/")[0]
            names = [path]
        else:
            listed, root = system.find(path, detail=True), path
            names = _readable(sorted(listed), path, stated) if listed else []
        if outside != "read" and (up := [n for n in names if ".." in unquote(n[len(root) :]).split("/")]):
            raise DataError("the name of the file leads outside of the folder", where=mask(up[0]), fix=FIX)
        if names:
            return [_remote_file(system, name, listed[name], stated, root) for name in names]
    raise DataError("no files found", where=mask(url), fix="check the URL and the permission to list it")


def _info_of_file(system: Any, path: str, url: str) -> Mapping[str, Any] | None:
    """Return the metadata of a remote file; None if `path` is a folder or does not exist."""
    try:
        info: Mapping[str, Any] = system.info(path)
    except Exception as error:  # as in fsspec's isfile: listing the path raises other errors with their reason
        if network_error(error, url, "") is not None:
            raise
        return None
    return info if info["type"] == "file" else None


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec  # imported for URLs only: it is slow to import

    protocol = url.split("://")[0]
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError:
        package = PLUGINS.get(protocol, f"the fsspec plugin for {protocol}://")
        raise DataError(
            f"reading {protocol}:// needs a package that is not installed",
            where=mask(url),
            fix=f"pip install {package}",
        ) from None
    except ValueError as error:
        if "not known" not in str(error):  # a message of fsspec 2026.9, which has no class for it
            raise
        known = fsspec.available_protocols()
        hint = did_you_mean(protocol, known) or "for example s3://, gs://, https://, file://"
        raise DataError(f"unknown protocol {protocol}://", where=mask(url), fix=hint) from None


def _remote_file(system: Any, name: str, info: Mapping[str, Any], stated: str, root: str) -> SourceFile:
    if info.get("size") is None:  # a listing over HTTP has names only
        info = system.info(name)
    size, mtime_ns, version = remote_identity(info)
    file_format = require_format(name.split("?")[0], stated)
    return SourceFile(name, size, mtime_ns, file_format, version, _partitions(name, root), system)


def remote_identity(info: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the size, modification time (ns) and version from the fsspec metadata of a file."""
    changed = info.get("mtime") or info.get("LastModified") or info.get("created") or 0
    seconds = changed.timestamp() if hasattr(changed, "timestamp") else changed
    return (
        int(info.get("size") or 0),
        int(float(seconds) * 1e9) if isinstance(seconds, int | float) else 0,
        str(next((info[key] for key in VERSIONS if info.get(key)), "")),
    )


def _readable(names: list[str], root: str, stated: str) -> list[str]:
    """Return the data files of a folder: without hidden files and markers such as _SUCCESS, in the given format."""
    shown = [n for n in names if not any(map(_is_hidden, n[len(root) :].split("/")))]
    if stated == "auto":
        chosen = [name for name in shown if format_of(name)]
    else:
        chosen = [name for name in shown if format_of(name) == stated] or shown
    if not chosen:
        what = "files in a supported format" if stated == "auto" else f"{stated} files"
        raise DataError(
            f"the folder has no {what}",
            where=mask(root),
            fix="check the path; if the file suffixes do not show the format, set source.format",
        )
    return chosen


def _partitions(name: str, root: str) -> dict[str, str | None]:
    """Return the hive partition columns between `root` and the file, as in ``year=2024/month=1``."""
    found: dict[str, str | None] = {}
    for part in name[len(root) :].split("/")[:-1]:
        column, equals, value = part.partition("=")
        if equals and column:
            if unquote(column) in found:
                what = f"partition column {unquote(column)!r} occurs twice in the path"
                raise DataError(what, where=mask(name), fix="use one folder per partition column")
            found[unquote(column)] = None if value == HIVE_NULL else unquote(value)
    return found


def _fixed_part(pattern: str) -> str:
    """Return the folder part of a glob before its first magic character."""
    return re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]


def as_text(path: str) -> str:
    """Return a path as text that YAML can store: a glob with ``?`` for each byte that is not UTF-8.

    >>> as_text("caf\\udce9.csv")
    'caf?.csv'
    """
    if not any(map(_is_odd_byte, path)):
        return path
    pattern = glob.escape(path) if os.path.lexists(path) or not glob.has_magic(path) else path
    return "".join("?" if _is_odd_byte(character) else character for character in pattern)


def _is_odd_byte(character: str) -> bool:
    """Return True if the character is a byte that is not UTF-8, as escaped by `os.fsdecode`."""
    return "\udc80" <= character <= "\udcff"


_NAMED = r"\$\{\w+\}"  # the name of an environment variable is not a secret
_USER = re.compile(rf"://(?!(?:{_NAMED}|:)+@)[^/?#]+@")  # up to the last @: a password may contain one
_PARAMETER = re.compile(rf"([?&#;][^=&]{{1,200}}=)(?!{_NAMED})[^&]+")
_URL = re.compile(r"\b\w[\w+.-]{0,30}://[^\s'\"]+")  # bounded: text from data may be long


def mask(text: str) -> str:
    """Return `text` with users, passwords and signatures in its URLs replaced by ``***``; ``${NAME}`` is kept."""
    return _URL.sub(lambda url: _PARAMETER.sub(r"\1***", _USER.sub("://***@", url[0])), text)
