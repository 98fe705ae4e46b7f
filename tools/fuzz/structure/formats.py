"""Codecs between model files and trees that can be edited and written back, consistent or not.

A tree consists of dicts, lists, numbers, strings, bytes, None and one-dimensional NumPy arrays. An npy array is a dict
of its header and its data, so that the two may disagree.
"""

from __future__ import annotations

import ast
import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.artifact.untrusted.ubjson import UbjsonReader

NPY = b"\x93NUMPY\x01\x00"
_LETTERS = {"i1": "i", "u1": "U", "i2": "I", "i4": "l", "i8": "L", "f4": "d", "f8": "D"}


@dataclass(frozen=True)
class Format:
    """A file format; `encode` raises an exception such as ValueError for a tree that it cannot write."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def read_npy(content: bytes) -> Any:
    """Return the header and the data of an npy file as a dict."""
    length = struct.unpack_from("<H", content, len(NPY))[0]
    start = len(NPY) + 2
    header: dict[str, Any] = ast.literal_eval(content[start : start + length].decode("latin-1"))
    descr = header["descr"]
    dtype = np.dtype([tuple(field) for field in descr] if isinstance(descr, list) else descr)
    if dtype.hasobject:
        raise ValueError("Python objects")
    data = np.frombuffer(content, dtype, offset=start + length).copy()
    descr = [list(field) for field in descr] if isinstance(descr, list) else descr
    return {"descr": descr, "fortran_order": header["fortran_order"], "shape": list(header["shape"]), "data": data}


def write_npy(tree: Any) -> bytes:
    """Return an npy file with the header and the data of `tree`."""
    descr, shape = tree["descr"], tree["shape"]
    said = {
        "descr": [tuple(field) for field in descr] if isinstance(descr, list) else descr,
        "fortran_order": tree["fortran_order"],
        "shape": tuple(shape) if isinstance(shape, list) else shape,
    }
    header = repr(said).encode("latin-1", "replace")
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return NPY + struct.pack("<H", len(header)) + header + np.asarray(tree["data"]).tobytes()


def is_array(tree: Any) -> bool:
    """Return whether a node of a tree is an npy array."""
    return isinstance(tree, dict) and {"descr", "shape", "data"} <= set(tree)


def read_npz(content: bytes) -> Any:
    """Return name to array for an npz file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: read_npy(archive.read(name)) for name in archive.namelist()}


def write_npz(tree: Any) -> bytes:
    """Return an npz file."""
    return _zipped({str(name): write_npy(array) for name, array in tree.items()})


def _zipped(members: dict[str, bytes], packed: bool = False) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name.replace("\0", "") or "x"), content, archive.compression)
    return buffer.getvalue()


def read_skops(content: bytes) -> Any:
    """Return the schema of a skops file, with arrays and JSON texts instead of their names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    def unfolded(node: Any) -> Any:
        if isinstance(node, list):
            return [unfolded(item) for item in node]
        if not isinstance(node, dict):
            return node
        found = {key: unfolded(value) for key, value in node.items()}
        if found.get("__loader__") == "JsonNode" and isinstance(found["content"], str):
            found["content"] = {"json": json.loads(found["content"])}
        if isinstance(found.get("file"), str) and found["file"] in files:
            content = files[found["file"]]
            found["file"] = read_npy(content) if content.startswith(NPY) else found["file"]
        return found

    return unfolded(json.loads(files["schema.json"]))


def with_small_ids(content: bytes) -> bytes:
    """Return a skops file whose nodes are numbered instead of named by their memory addresses."""
    tree = read_skops(content)
    numbers: dict[int, int] = {}

    def number(node: Any) -> None:
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            number(item)
        if isinstance(node, dict) and "__id__" in node:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)

    number(tree)
    return write_skops(tree)


def write_skops(tree: Any) -> bytes:
    """Return a skops file."""
    members: dict[str, bytes] = {}

    def folded(node: Any) -> Any:
        if isinstance(node, list):
            return [folded(item) for item in node]
        if is_array(node):
            name = f"{len(members)}.npy"
            members[name] = write_npy(node)
            return name
        if isinstance(node, dict) and set(node) == {"json"}:
            return json.dumps(node["json"])
        if isinstance(node, dict):
            return {key: folded(value) for key, value in node.items()}
        return node.tolist() if isinstance(node, np.ndarray) else node

    schema = json.dumps(folded(tree))
    return _zipped({"schema.json": schema.encode(), **members}, packed=True)


def write_ubj(tree: Any) -> bytes:
    """Return Universal Binary JSON, as XGBoost writes it."""
    out = bytearray()
    _put(out, tree)
    return bytes(out)


def _put(out: bytearray, value: Any) -> None:
    if isinstance(value, dict):
        out += b"{"
        for key, item in value.items():
            _put_text(out, str(key))
            _put(out, item)
        out += b"}"
    elif isinstance(value, np.ndarray):
        letter = _LETTERS[value.dtype.str[1:]]
        out += b"[$" + letter.encode() + b"#L" + struct.pack(">q", value.size)
        out += value.astype(value.dtype.newbyteorder(">")).tobytes()
    elif isinstance(value, list):
        out += b"[#L" + struct.pack(">q", len(value))
        for item in value:
            _put(out, item)
    elif isinstance(value, str):
        out += b"S"
        _put_text(out, value)
    elif value is None or isinstance(value, bool):
        out += {None: b"Z", True: b"T", False: b"F"}[value]
    elif isinstance(value, int):
        out += b"l" + struct.pack(">i", value) if -(2**31) <= value < 2**31 else b"L" + struct.pack(">q", value)
    else:
        out += b"D" + struct.pack(">d", value)


def _put_text(out: bytearray, text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    out += b"L" + struct.pack(">q", len(content)) + content


def read_safetensors(content: bytes) -> Any:
    """Return the length, the header and the data of a safetensors file."""
    length = struct.unpack_from("<Q", content)[0]
    data = np.frombuffer(content, np.uint8, offset=8 + length).copy()
    return {"longer": 0, "header": json.loads(content[8 : 8 + length]), "data": data}


def write_safetensors(tree: Any) -> bytes:
    """Return a safetensors file; ``longer`` is added to the length of its header."""
    header = json.dumps(tree["header"]).encode()
    return struct.pack("<Q", (len(header) + tree["longer"]) % 2**64) + header + np.asarray(tree["data"]).tobytes()


def write_json(tree: Any) -> bytes:
    """Return JSON, which may hold NaN."""
    return json.dumps(tree, indent=1).encode()


def read_trees_text(content: bytes) -> Any:
    """Return the blocks of a text model of LightGBM, each as a dict of name to list of numbers, or to text."""
    head, end, tail = content.decode().partition("\nend of trees\n")
    blocks = [dict(line.partition("=")[::2] for line in block.split("\n")) for block in head.split("\nTree=")]
    return {"blocks": [{name: _listed(value) for name, value in block.items()} for block in blocks], "tail": end + tail}


def _listed(text: str) -> Any:
    try:
        return [float(word) if "." in word or "e" in word else int(word) for word in text.split()]
    except ValueError:
        return text


def write_trees_text(tree: Any) -> bytes:
    """Return a text model of LightGBM."""

    def line(name: Any, value: Any) -> str:
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        return f"{name}={text}" if text else str(name)

    blocks = ["\n".join(line(name, value) for name, value in block.items()) for block in tree["blocks"]]
    return ("\nTree=".join(blocks) + str(tree["tail"])).encode()


FORMATS: dict[str, Format] = {
    "ubj": Format(lambda content: _own_arrays(UbjsonReader(content).document()), write_ubj),
    "skops": Format(read_skops, write_skops),
    "npz": Format(read_npz, write_npz),
    "safetensors": Format(read_safetensors, write_safetensors),
    "json": Format(json.loads, write_json),
    "txt": Format(read_trees_text, write_trees_text),
}


def _own_arrays(tree: Any) -> Any:
    """Return a tree with writable arrays."""
    if isinstance(tree, dict):
        return {key: _own_arrays(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_own_arrays(value) for value in tree]
    return tree.astype(tree.dtype.newbyteorder("=")) if isinstance(tree, np.ndarray) else tree
