"""Content of ``kernels/gpupipe_kernels/compiled``: PTX, machine code for each architecture, and the manifest."""

from __future__ import annotations

import ast
import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupipe_kernels.catalog import device_loops
from gpupipe_kernels.device import binaries
from gpupipe_kernels.device.compiler import join
from gpupipe_kernels.proof.device_compilers import assemble, compiler_versions
from gpupipe_kernels.proof.machine_code import module_of

PACKAGE = binaries.PACKAGE.name
NO_DEVICE_CODE = (
    "code_cache.py", "device/arrays.py", "device/binaries.py", "private_folders.py", "toolchain.py", "typing.py",
)  # fmt: skip
"""Files that loop files import and that no device code depends on."""
XZ = lzma.PRESET_EXTREME | 9


@dataclass(frozen=True)
class DeviceCode:
    """The shipped code.

    Attributes
    ----------
    manifest : dict
    files : dict of str to bytes
        File name without ``.xz`` to content, not compressed.
    """

    manifest: dict[str, Any]
    files: dict[str, bytes]

    def write(self, folder: Path = binaries.FOLDER) -> None:
        """Write the files and the manifest to a folder, and remove everything else from it."""
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, content in self.files.items():
            (folder / f"{name}.xz").write_bytes(lzma.compress(content, preset=XZ))
        text = json.dumps(self.manifest, indent=1, sort_keys=True)
        (folder / binaries.MANIFEST).write_text(text + "\n", encoding="utf8")


def build(architectures: Sequence[str] = binaries.ARCHITECTURES) -> DeviceCode:
    """Compile all device loops of the package; the same sources and compilers give the same bytes.

    Parameters
    ----------
    architectures : sequence of str
        Those to assemble. A build with fewer than all is for comparison with `differences` only.
    """
    loops = device_loops().values()
    ptx = join(module_of(loops).values())
    files = {binaries.PTX: ptx.encode()}
    files |= {f"{name}.cubin": assemble(ptx, name).cubin for name in architectures}
    sources = source_files(loop.function.__module__ for loop in loops)
    manifest = {
        "compilers": compiler_versions(),
        "sources": {"files": sources, "sha256": binaries.hash_of(tuple(sources))},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "entries": {entry.name: " ".join(entry.words) for loop in loops for entry in loop.entries.values()},
    }
    return DeviceCode(manifest, files)


def source_files(modules: Iterable[str]) -> list[str]:
    """Return the files of this package that modules import, directly or not, relative to the package.

    The compiler itself is included, because it writes the wrappers.
    """
    found: set[str] = set()
    waiting = [_path(name) for name in {*modules, f"{PACKAGE}.device.compiler"}]
    while waiting:
        path = waiting.pop()
        file = path.relative_to(binaries.PACKAGE).as_posix()
        if file not in found and file not in NO_DEVICE_CODE:
            found.add(file)
            waiting += [_path(name) for name in _imported(path)]
    return sorted(found)


def _imported(path: Path) -> list[str]:
    """Return the modules of this package that a file imports at its top level."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            deeper = [f"{node.module}.{name.name}" for name in node.names]
            names += [str(node.module), *(name for name in deeper if _path(name).is_file())]
    return names


def _path(module: str) -> Path:
    stem = binaries.PACKAGE.joinpath(*module.split(".")[1:])
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def differences(built: DeviceCode, folder: Path = binaries.FOLDER) -> list[str]:
    """Return a message for each part of a build that is not what the package ships."""
    try:
        kept = json.loads((folder / binaries.MANIFEST).read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        return [f"{binaries.MANIFEST}: {error}"]
    found = [
        f"{part}: {text}" for part in ("sources", "entries") for text in _unequal(kept[part], built.manifest[part])
    ]
    for name, content in built.files.items():
        try:
            is_equal = lzma.decompress((folder / f"{name}.xz").read_bytes()) == content
        except (OSError, lzma.LZMAError):
            is_equal = False
        found += [] if is_equal else [f"{name}.xz: expected {len(content):,} bytes of another content"]
    return found


def _unequal(kept: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*kept, *built}) if kept.get(name) != built.get(name)]
