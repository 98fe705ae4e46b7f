"""Compressed request bodies."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("starlette", reason="needs the extra serve")

from gpupipe.serve.application import FREE_BYTES, PIECE_BYTES, READ_BYTES, decompress
from gpupipe.serve.problems import RequestProblem
from tests.serve.conftest import AppClient

TEXT = b'{"age": 3}' * 20
RAW = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(TEXT)),
        (b" X-GZIP ", gzip.compress(TEXT)),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", RAW.compress(TEXT) + RAW.flush()),
        (b"identity", TEXT),
    ],
    ids=["gzip", "x-gzip", "zlib", "raw", "identity"],
)
def test_bodies_are_decompressed(encoding: bytes, body: bytes) -> None:
    assert decompress(body, encoding, len(TEXT)) == TEXT


@pytest.mark.parametrize("n_bytes", [0, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
@pytest.mark.parametrize("compressed", [gzip.compress, zlib.compress])
def test_streams_of_several_pieces_are_complete(compressed: Callable[[bytes], bytes], n_bytes: int) -> None:
    encoding = b"gzip" if compressed is gzip.compress else b"deflate"
    for content in (b"a" * n_bytes, random.Random(3).randbytes(n_bytes)):
        body = compressed(content)
        assert decompress(body, encoding, n_bytes) == content
        for wrong in (body[:-1], body + b"x", body + bytes(READ_BYTES)):
            with pytest.raises(RequestProblem, match="one complete stream"):
                decompress(wrong, encoding, n_bytes)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        (b"gzip", gzip.compress(TEXT + b"}"), 413),
        (b"gzip", gzip.compress(b" " * 10**7), 413),  # 10 kB
        (b"deflate", zlib.compress(b" " * 10**7), 413),
        (b"gzip", gzip.compress(TEXT)[:-1], 400),
        (b"gzip", gzip.compress(TEXT) + b"x", 400),
        (b"gzip", zlib.compress(TEXT), 400),
        (b"gzip", b"", 400),
        (b"deflate", TEXT, 400),
        (b"br", TEXT, 415),
        (b"gzip, gzip", gzip.compress(gzip.compress(TEXT)), 415),
        (b"", TEXT, 415),
    ],
    ids=[
        *("long", "gzip bomb", "deflate bomb", "cut off", "more bytes", "zlib", "empty", "plain"),
        *("brotli", "twice", "no name"),
    ],
)
def test_other_bodies_are_refused(encoding: bytes, body: bytes, status: int) -> None:
    with pytest.raises(RequestProblem) as found:
        decompress(body, encoding, len(TEXT))
    assert found.value.status == status
    assert (status == 415) == (found.value.headers == [(b"accept-encoding", b"gzip, deflate, identity")])


@pytest.mark.parametrize("read_bytes", [READ_BYTES, 2**10])
def test_a_body_that_is_compressed_too_much_is_refused_after_a_mebibyte(
    monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr("gpupipe.serve.application.READ_BYTES", read_bytes)
    most, text = 2**26, b'{"age": 31, "plan": "plus"},' * 40_000
    assert decompress(gzip.compress(b" " * FREE_BYTES), b"gzip", most) == b" " * FREE_BYTES
    with pytest.raises(RequestProblem, match="more than 200 times its size"):
        decompress(gzip.compress(b" " * (FREE_BYTES + 1)), b"gzip", most)
    noise = random.Random(3).randbytes(len(text) // 150)
    assert decompress(gzip.compress(noise + text), b"gzip", most) == noise + text
    with pytest.raises(RequestProblem, match="more than 200 times its size"):  # before the incompressible rest is read
        decompress(gzip.compress(text * 20 + noise), b"gzip", most)


def test_every_route_with_a_body_takes_compressed_ones(client: AppClient, rows: list[dict[str, Any]]) -> None:
    headers = {"content-encoding": "gzip"}
    inputs = [{"name": name, "datatype": "BYTES", "shape": [1], "data": ["40"]} for name in rows[2]]
    inputs = [each | {"data": [None]} if each["name"] != "age" else each for each in inputs]
    for path, body in (
        ("/predict", rows),
        ("/predict?explain=1", rows[2]),
        ("/v2/models/leavers/infer", {"inputs": inputs}),
        ("/v2/repository/index", {"ready": True}),
    ):
        plain = client(path, body)
        assert plain.status == 200
        reply = client(path, gzip.compress(json.dumps(body).encode()), headers=headers, n_chunks=2)
        assert (reply.status, reply.body) == (200, plain.body)
        assert client(path, b"{}", headers=headers).status == 400
    assert client.app._buffered_bytes == 0
