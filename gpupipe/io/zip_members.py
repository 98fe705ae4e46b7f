"""The single member of a zip archive that is read as a compressed file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.errors import DataError
from gpupipe.io.file_formats import format_of
from gpupipe.names import enumerate_names

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

SUFFIX = ".zip"
IS_ENCRYPTED = 1  # bit of the flags of a member


def open_member(stream: Any) -> Any:
    """Return the bytes of the only file in an archive, as a binary stream; `stream` is a seekable binary stream.

    Raise DataError if there is not exactly one, apart from files that start with a dot and those of macOS, or it is
    encrypted; zipfile.BadZipFile if the archive is corrupt.
    """
    from zipfile import ZipFile  # in functions: its import is slow, and few tables are archives

    archive = ZipFile(stream)
    members = _members(archive)
    if len(members) != 1:
        found = f": {enumerate_names([member.filename for member in members], 5)}" if members else ""
        what = f"expected one file in the zip archive, found {len(members)}{found}"
        raise DataError(what, fix="extract the archive, and name the files or their folder")
    if members[0].flag_bits & IS_ENCRYPTED:
        raise DataError("the file in the zip archive is encrypted", fix="extract it with its password first")
    return archive.open(members[0])


def member_format(path: str) -> str | None:
    """Return the format by the name of the only file in a local archive, None if there is none."""
    if not path.lower().endswith(SUFFIX):
        return None
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            members = _members(archive)
    except (OSError, BadZipFile, NotImplementedError, ValueError):  # reading it raises the error with its reason
        return None
    return format_of(f"{members[0].filename}{SUFFIX}") if len(members) == 1 else None


def _members(archive: ZipFile) -> list[ZipInfo]:
    found = [member for member in archive.infolist() if not member.is_dir()]
    return [
        member for member in found if not any(part[:1] in ("", ".") or part == "__MACOSX" for part in _parts(member))
    ]


def _parts(member: ZipInfo) -> list[str]:
    return member.filename.split("/")
