"""Zip files of arrays: every size that one declares is compared with the bytes that are there."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from itertools import pairwise
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted import most_bytes

if TYPE_CHECKING:
    import numpy as np

LOCAL_HEADER = 30  # bytes of the least header of a member
MOST_ARRAYS = 4096  # of an npz
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the ways of skops
BROKEN = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_arrays(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an npz whose members are stored uncompressed; nothing in it is ever unpickled.

    Raises
    ------
    ValueError
        If it is no such file, or declares more than it has.
    """
    import numpy as np

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_members(archive, len(data))
            if len(archive.filelist) > MOST_ARRAYS:
                raise ValueError(f"{len(archive.filelist):,} members, more than {MOST_ARRAYS:,}")
            if packed := [info.filename for info in archive.filelist if info.compress_type != zipfile.ZIP_STORED]:
                raise ValueError(f"{packed[0][:80]!r} is compressed, as no array of a model is")
            found = {}
            for info in archive.filelist:
                check_array(archive, info, len(data))
                with archive.open(info) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    found[info.filename.removesuffix(".npy")] = np.asarray(array)
            return found
    except BROKEN as error:
        raise ValueError(str(error)) from error


def check_members(archive: zipfile.ZipFile, n_bytes: int) -> None:
    """Verify that the members of an archive of `n_bytes` are distinct, lie apart, and do not unfold into a bomb."""
    infos = sorted(archive.filelist, key=lambda info: info.header_offset)
    if strange := [info.filename for info in infos if info.compress_type not in PACKED]:
        raise ValueError(f"{strange[0][:80]!r} is compressed in a way that is not used here")
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("two members have one name")
    for first, second in pairwise(infos):
        if first.header_offset + LOCAL_HEADER + first.compress_size > second.header_offset:
            raise ValueError(f"the members {first.filename[:80]!r} and {second.filename[:80]!r} overlap")
    unfolded = sum(info.file_size for info in infos)
    if unfolded > most_bytes(n_bytes):
        raise ValueError(f"{n_bytes:,} bytes unfold into {unfolded:,}: a decompression bomb")


def check_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, longest: int) -> None:
    """Verify that a member is an array of as many bytes as its header declares, and of no Python objects.

    No dimension may exceed `longest`, the bytes of the file: those of an array of no bytes, shape (10**11, 0), would be
    believed.
    """
    from numpy.lib import format as npy

    with archive.open(info) as member:
        try:
            readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            shape, _, dtype = readers[npy.read_magic(member)](member)
            start = member.tell()
        except (KeyError, SyntaxError, TokenError, RecursionError, MemoryError, TypeError) as error:
            raise ValueError(f"{info.filename[:80]!r} has no header of an array: {error}") from None
    if dtype.hasobject:
        raise ValueError(f"{info.filename[:80]!r} holds Python objects, which only pickle could read")
    count = math.prod(shape)
    declared = start + count * dtype.itemsize
    if min(shape, default=0) < 0 or declared != info.file_size or (not dtype.itemsize and count > info.file_size):
        what = f"declares {count:,} values of {dtype.itemsize} bytes and has {info.file_size - start:,} bytes"
        raise ValueError(f"{info.filename[:80]!r} {what}")
    if max(shape, default=0) > max(longest, info.file_size):
        raise ValueError(f"{info.filename[:80]!r} declares a dimension of {max(shape):,}, more than the file has bytes")
