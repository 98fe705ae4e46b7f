"""Discovery of the files that a path means: a file, glob, folder, hive-partitioned folder or fsspec URL."""

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
from gpupipe.io.formats.registry import format_of, require_format
from gpupipe.io.settings import TableSource
from gpupipe.system_errors import OPEN_FILES, THREADS, shortage

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
PLUGINS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
           "http": "aiohttp", "https": "aiohttp", "hdfs": "pyarrow", "sftp": "paramiko", "ssh": "paramiko",
           "smb": "smbprotocol"}  # fmt: skip

VERSIONS = ("ETag", "etag", "md5Hash", "Content-MD5", "Digest", "Last-Modified", "ino")  # as plugins name them
DECRYPT = "decrypt it first; or, if some columns are encrypted and not all of it, leave these out with drop"
STRANGE = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True)
class SourceFile:
    """One file to read, and its identity.

    Attributes
    ----------
    path : str
        Of a local file, absolute; of a remote one, as its file system names it.
    size : int
        Bytes.
    mtime_ns : int
        Time of the last change; 0 where the file system does not say.
    version : str
        Entity tag or checksum that a remote file system gives, or ``""``.
    format : str
    partitions : mapping of str to (str or None)
        Columns that the folders say, as in ``year=2024/month=1``.
    remote : file system of fsspec, optional
        None for a local file.
    ctime_ns, inode : int
        Of a local file: time of its last change of any kind, which nobody can set, and its number on this host.
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

    @classmethod
    def local(
        cls, path: str, status: os.stat_result, file_format: str, partitions: Mapping[str, str | None] | None = None
    ) -> SourceFile:
        """Return a local file of which `os.stat` gave `status`."""
        return cls(
            path,
            status.st_size,
            status.st_mtime_ns,
            file_format,
            partitions=dict(partitions or {}),
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
        )

    @property
    def identity(self) -> tuple[str, int, int, str, int, int]:
        """What distinguishes this state of the file from all others that this host sees under its path.

        Size and mtime alone do not: ``cp -p`` and ``touch -d`` write new content under an old time.
        """
        return self.path, self.size, self.mtime_ns, self.version, self.ctime_ns, self.inode

    @property
    def shows_changes(self) -> bool:
        """Whether `identity` says more than the size; some remote file systems give neither a time nor a tag."""
        return self.remote is None or bool(self.mtime_ns or self.version)


@contextmanager
def convert_read_errors(path: str) -> Iterator[None]:
    """Convert any error of a library that reads `path` into one DataError that names the file."""
    try:
        yield
    except GpupipeError:
        raise
    except PermissionError as error:
        fix = "give this user the right to read it"
        raise DataError("the file may not be read", where=mask(path), fix=fix) from error
    except Exception as error:  # Arrow's errors and those of any fsspec plugin have no ancestor in common
        if (found := shortage(error, (THREADS, OPEN_FILES))) is not None:  # of memory, a corrupt file may ask for any
            found.place(mask(path))
            raise found from error
        # A message of pyarrow 26.0, which raises OSError for all unreadable Parquet files.
        if re.search("encrypt|decrypt", str(error), re.IGNORECASE):
            raise DataError("the file is encrypted", where=mask(path), fix=DECRYPT) from error
        # A message of pyarrow 26.0, which raises ArrowInvalid for all malformed files.
        kind = RowSizeError if "straddling object" in str(error) else DataError
        raise kind(
            f"the file cannot be read: {reason_of(error)}",
            where=mask(path),
            fix="check that the file is complete and of the format that it should have",
        ) from error


def reason_of(error: BaseException | None) -> str:
    """Return a library's message for people: on one line, without secrets, its first 300 characters."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return mask(reason[:300])


def find_files(source: TableSource) -> list[SourceFile]:
    """Return the files of a source, without reading them: of each path in sorted order, paths as listed.

    Parameters
    ----------
    source : TableSource
        Its ``path`` must be given.

    Raises
    ------
    DataError
        If a path means no file, files of several formats, or one that cannot be reached.
    """
    files = []
    for path in source.paths:
        found = _remote_files(path, source.format) if "://" in path else _local_files(path, source.format)
        formats = sorted({file.format for file in found})
        if len(formats) > 1:
            raise DataError(
                f"the folder has files of several formats: {', '.join(formats)}",
                where=mask(path),
                fix="state one, as in source.format: parquet, or use a glob such as *.parquet",
            )
        files += found
    return files


def _local_files(path: str, stated: str) -> list[SourceFile]:
    full = Path(path).expanduser().absolute()
    with convert_read_errors(str(full)):  # a name that is too long, a folder that may not be listed
        if full.is_dir():
            names = _readable(_files_below(str(full)), str(full), stated)
            return [_local_file(name, stated, str(full)) for name in names]
        if os.path.lexists(full):
            return [_local_file(str(full), stated, str(full.parent))]
        if glob.has_magic(path):
            names = [hit for hit in _sorted_paths(glob.glob(str(full), recursive=True)) if not os.path.isdir(hit)]
            if names:
                root = _fixed_part(str(full))
                return [_local_file(name, stated, root) for name in names]
            raise DataError("no file matches", where=str(full), fix="check the pattern; ** goes into folders")
        raise _no_such_file(full)


def _files_below(folder: str) -> list[str]:
    """Return the files in a folder and its subfolders, of which hidden ones and links are not entered."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        found += [os.path.join(path, name) for name in names]
    return _sorted_paths(found)


def _sorted_paths(paths: Iterable[str]) -> list[str]:
    """Return paths in the order of their parts: ``a/z`` is before ``a-b/c``."""
    return sorted(paths, key=lambda path: path.split("/"))


def _is_hidden(name: str) -> bool:
    """Return whether a file or folder holds no data by its name: ``.git``, ``_SUCCESS``, ``_temporary``."""
    return name[:1] in (".", "_")


def _local_file(name: str, stated: str, root: str) -> SourceFile:
    try:
        status = os.stat(name)
    except OSError as error:
        if not os.path.islink(name):
            raise
        fix = "mend the link, or take it away"
        why = "itself" if error.errno == errno.ELOOP else f"{os.readlink(name)}, which is not there"
        raise DataError(f"the link leads to {why}", where=name, fix=fix) from None
    if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever, a device might never end
        kind = STRANGE.get(stat.S_IFMT(status.st_mode), "something else")
        raise DataError(f"it is {kind}, and no file", where=name, fix="write the rows to a file, and name that one")
    return SourceFile.local(name, status, require_format(name, stated), _partitions(name, root))


def _no_such_file(path: Path) -> DataError:
    hint = ""
    if path.parent.is_dir():
        hint = did_you_mean(path.name, os.listdir(path.parent))
    elif not path.parent.exists():
        hint = f"the folder {path.parent} does not exist either"
    fix = "check the path; it is relative to the working directory, or to the configuration that names it"
    return DataError("there is no such file or folder", where=str(path), fix=f"{hint}; {fix}" if hint else fix)


def _remote_files(url: str, stated: str) -> list[SourceFile]:
    with convert_read_errors(url):
        system, path = _file_system(url)
        system.invalidate_cache()  # of listings: those of an earlier run may have changed since
        # A URL that has a query is one file whatever its characters say.
        if glob.has_magic(path) and not url.startswith(("http://", "https://")):
            listed, root = system.glob(path, detail=True), _fixed_part(path)
            names = sorted(name for name, info in listed.items() if info["type"] == "file")
        elif (info := _info_of_file(system, path)) is not None:
            listed, root, names = {path: info}, path.rpartition("/")[0], [path]
        else:
            listed, root = system.find(path, detail=True), path
            names = _readable(sorted(listed), path, stated)
        if names:
            return [_remote_file(system, name, listed[name], stated, root) for name in names]
    raise DataError("no file is there", where=mask(url), fix="check the URL, and the right to list it")


def _info_of_file(system: Any, path: str) -> Mapping[str, Any] | None:
    """Return what a remote file system says of a file; None where `path` is a folder, or nothing."""
    try:
        info: Mapping[str, Any] = system.info(path)
    except Exception:  # as fsspec's own isfile: what is wrong is said when the path is listed
        return None
    return info if info["type"] == "file" else None


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec  # with all that it brings, for URLs alone

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
        if "not known" not in str(error):  # a message of fsspec 2026.9, which raises ValueError for bad options too
            raise
        known = fsspec.available_protocols()
        hint = did_you_mean(protocol, known) or "for example s3://, gs://, https://, file://"
        raise DataError(f"unknown protocol {protocol}://", where=mask(url), fix=hint) from None


def _remote_file(system: Any, name: str, info: Mapping[str, Any], stated: str, root: str) -> SourceFile:
    if info.get("size") is None:  # a listing over HTTP has no more than names
        info = system.info(name)
    size, mtime_ns, version = remote_identity(info)
    file_format = require_format(name.split("?")[0], stated)
    # fsspec calls the ctime of a file:// URL "created".
    ctime_ns = int(info["created"] * 1e9) if "ino" in info and isinstance(info.get("created"), float) else 0
    return SourceFile(name, size, mtime_ns, file_format, version, _partitions(name, root), system, ctime_ns)


def remote_identity(info: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the size, time of change and version that a file system of fsspec says of a file."""
    changed = info.get("mtime") or info.get("LastModified") or info.get("created") or 0
    seconds = changed.timestamp() if hasattr(changed, "timestamp") else changed
    return (
        int(info.get("size") or 0),
        int(float(seconds) * 1e9) if isinstance(seconds, int | float) else 0,
        str(next((info[key] for key in VERSIONS if info.get(key)), "")),
    )


def _readable(names: list[str], root: str, stated: str) -> list[str]:
    """Return the data files of a folder: no hidden ones, no markers such as _SUCCESS, only the stated format."""
    shown = [n for n in names if not any(map(_is_hidden, n[len(root) :].split("/")))]
    if stated == "auto":
        chosen = [name for name in shown if format_of(name)]
    else:
        chosen = [name for name in shown if format_of(name) == stated] or shown
    if not chosen:
        what = "file that can be read" if stated == "auto" else f"{stated} file"
        raise DataError(
            f"the folder has no {what}",
            where=mask(root),
            fix="check the path; if the files have other suffixes, state source.format",
        )
    return chosen


def _partitions(name: str, root: str) -> dict[str, str | None]:
    """Return the columns that the folders between `root` and the file say, as in ``year=2024/month=1``."""
    found: dict[str, str | None] = {}
    for part in name[len(root) :].split("/")[:-1]:
        column, equals, value = part.partition("=")
        if equals and column:
            if unquote(column) in found:
                what = f"the folders say {unquote(column)!r} twice"
                raise DataError(what, where=mask(name), fix="move the file to where one folder says it")
            found[unquote(column)] = None if value == HIVE_NULL else unquote(value)
    return found


def _fixed_part(pattern: str) -> str:
    """Return the folder of a glob that is before its first magic character."""
    return re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]


def as_text(path: str) -> str:
    """Return a path as text that YAML can hold: where its bytes are not UTF-8, a glob with ``?`` in place of each.

    >>> as_text("caf\\udce9.csv")
    'caf?.csv'
    """
    if not any(map(_is_odd_byte, path)):
        return path
    pattern = glob.escape(path) if os.path.lexists(path) or not glob.has_magic(path) else path
    return "".join("?" if _is_odd_byte(character) else character for character in pattern)


def _is_odd_byte(character: str) -> bool:
    """Return whether a character stands for a byte that is not UTF-8, as `os.fsdecode` keeps it."""
    return "\udc80" <= character <= "\udcff"


_NAMED = r"\$\{\w+\}"  # the name of a variable that holds a secret is none
_USER = re.compile(rf"://(?!(?:{_NAMED}|:)+@)[^/?#]+@")  # up to the last @: a password may hold one
_PARAMETER = re.compile(rf"([?&#;][^=&]{{1,200}}=)(?!{_NAMED})[^&]+")
_URL = re.compile(r"\b\w[\w+.-]{0,30}://[^\s'\"]+")  # bounded, as text from data may be long and look like anything


def mask(text: str) -> str:
    """Return `text` with users, passwords and signatures in its URLs replaced by ``***``; ``${NAME}`` stays."""
    return _URL.sub(lambda url: _PARAMETER.sub(r"\1***", _USER.sub("://***@", url[0])), text)
