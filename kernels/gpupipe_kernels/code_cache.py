"""Where compiled code is kept, and whether this machine's is there. Standard library only: asking loads no compiler.

Compiled code lies in a folder named by a hash of this package's sources: Numba itself looks only at the file that
holds a function, and would go on using a loop whose formula, in another file, has changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
SOURCES = Path(__file__).parent


@cache
def fingerprint() -> str:
    """Return a hash of the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled code: below ``NUMBA_CACHE_DIR``, or else the user's cache folder."""
    root = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpupipe"
    return base / "kernels" / fingerprint()


def is_kept(name: str) -> bool:
    """Return whether the code `name` has been compiled for this processor, and kept."""
    return _mark(name).is_file()


def mark_kept(name: str) -> None:
    """Note that the code `name` is now on disk; does nothing where nothing can be written."""
    try:
        _mark(name).touch()
    except OSError:
        return


def can_keep() -> bool:
    """Return whether compiled code can be written to its folder, which is made if it is not there."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache_folder(), os.W_OK)


def _mark(name: str) -> Path:
    return cache_folder() / f"{name}-{_machine()}.kept"


@cache
def _machine() -> str:
    """Return a hash of what machine code is made for and of: Numba discards that for another processor or file."""
    from importlib.metadata import version

    settings = (os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT"))
    written = max(path.stat().st_mtime for path in SOURCES.rglob("*.py"))
    parts = (sys.version, version("numba"), platform.machine(), str(SOURCES), str(written), *settings, *_processor())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _processor() -> list[str]:
    """Return the lines of the first processor that say what it can do."""
    try:
        first = CPUINFO.read_text(encoding="utf8", errors="replace").partition("\n\n")[0]
    except OSError:
        return [platform.processor()]
    return [line for line in first.splitlines() if line.startswith(("vendor_id", "cpu family", "model", "flags"))]
