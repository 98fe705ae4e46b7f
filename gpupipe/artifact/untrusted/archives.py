"""Zip and npz files, with every declared size checked against the actual bytes."""

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

LOCAL_HEADER = 30  # bytes of the smallest member header
MOST_ARRAYS = 4096  # per npz file
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the compression methods of skops
BROKEN = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_arrays(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an uncompressed npz file, without unpickling anything.

    Raise ValueError if it is not such a file, or declares more bytes than it has.
    """
    import numpy as np

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_members(archive, len(data))
            if len(archive.filelist) > MOST_ARRAYS:
                raise ValueError(f"expected at most {MOST_ARRAYS:,} arrays; found {len(archive.filelist):,}")
            if packed := [info.filename for info in archive.filelist if info.compress_type != zipfile.ZIP_STORED]:
                raise ValueError(f"{packed[0][:80]!r} is compressed; expected uncompressed arrays")
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
    """Raise ValueError unless the members of an archive of `n_bytes` are distinct, disjoint and not too large."""
    infos = sorted(archive.filelist, key=lambda info: info.header_offset)
    if unknown := [info.filename for info in infos if info.compress_type not in PACKED]:
        raise ValueError(f"{unknown[0][:80]!r} has an unsupported compression method")
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("duplicate member names")
    for first, second in pairwise(infos):
        if first.header_offset + LOCAL_HEADER + first.compress_size > second.header_offset:
            raise ValueError(f"the members {first.filename[:80]!r} and {second.filename[:80]!r} overlap")
    expanded = sum(info.file_size for info in infos)
    if expanded > most_bytes(n_bytes):
        raise ValueError(f"decompression bomb: {n_bytes:,} bytes would expand to {expanded:,}")


def check_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, longest: int) -> None:
    """Raise ValueError unless a member is an array without Python objects, of the size declared in its header.

    No dimension may exceed `longest`, the size of the file in bytes. Otherwise an empty array could declare any length,
    such as shape (10**11, 0).
    """
    from numpy.lib import format as npy

    with archive.open(info) as member:
        try:
            readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            shape, _, dtype = readers[npy.read_magic(member)](member)
            start = member.tell()
        except (KeyError, SyntaxError, TokenError, RecursionError, MemoryError, TypeError) as error:
            raise ValueError(f"{info.filename[:80]!r} has a malformed array header: {error}") from None
    if dtype.hasobject:
        raise ValueError(f"{info.filename[:80]!r} contains Python objects, which would need pickle")
    count = math.prod(shape)
    declared = start + count * dtype.itemsize
    if min(shape, default=0) < 0 or declared != info.file_size or (not dtype.itemsize and count > info.file_size):
        what = f"declares {count:,} values of {dtype.itemsize} bytes, but has {info.file_size - start:,} bytes"
        raise ValueError(f"{info.filename[:80]!r} {what}")
    if max(shape, default=0) > max(longest, info.file_size):
        raise ValueError(f"{info.filename[:80]!r} declares a dimension of {max(shape):,}; expected at most {longest:,}")
