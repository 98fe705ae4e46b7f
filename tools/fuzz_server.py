"""Fuzzer of ``gpupipe serve``: ``python -m tools.fuzz_server RUN_OR_MODEL --requests 20000 --seed 1``.

It starts a server of the model, sends valid requests with damaged bytes, values, tensors and headers, and prints the
number of responses by status. A request fails if the server answers with status 500, with a status that its OpenAPI
document does not list, without a valid error body, or not within 20 seconds; its body is saved in ``--keep``. The exit
code is 1 if a request failed, or if the server does not answer a valid request in the end.

With ``--schemathesis 2000``, that many requests follow that schemathesis derives from the OpenAPI document.
"""

from __future__ import annotations

import argparse
import copy
import http.client
import json
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupipe.children import child_environment, python_command
from gpupipe.serve.model_schema import describe_columns
from gpupipe.serve.served_model import ServedModel

SECONDS = 20.0
ARROW = "application/vnd.apache.arrow.stream"
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**53 + 1, 2**63, 2**64, 10**40, -0.0, 1e308, -1e-308, 4e37, "", " ", "\0", "null",
    "NaN", "inf", "1e5", "1_000", "２", "2024-02-30", "2024-01-01T00:00:00Z", "9" * 400, "\u202e", "\U0001f600" * 50,
    [], {}, [[]], {"a": {"b": [1]}}, [1, 2], "x" * 70_000,
)  # fmt: skip
ODD_HEADERS = (
    ("Content-Type", ""), ("Content-Type", "text/html"), ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Type", "application/x-ndjson"), ("Content-Type", ARROW), ("Content-Encoding", "gzip"),
    ("Inference-Header-Content-Length", "0"), ("Inference-Header-Content-Length", "-5"),
    ("Inference-Header-Content-Length", "99999999999999999999999"), ("Inference-Header-Content-Length", "x"),
    ("Expect", "100-continue"), ("Authorization", "Bearer \xff"), ("Host", "evil.example"), ("Accept", "\0"),
    ("Transfer-Encoding", "chunked"), ("Connection", "upgrade"), ("X", "y" * 40_000),
)  # fmt: skip


@dataclass(frozen=True)
class FuzzRequest:
    """A request: method, path, headers and body."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"


class RequestMaker:
    """Makes valid requests for a model, and damages them.

    Parameters
    ----------
    model : ServedModel
    seed : int
    """

    def __init__(self, model: ServedModel, seed: int) -> None:
        self._random = random.Random(seed)
        self._model, self._columns = model, describe_columns(model)
        self._forms: tuple[Callable[[], FuzzRequest], ...] = (
            self._json,
            self._json,
            self._lines,
            self._arrow,
            self._tensors,
            self._binary,
            self._get,
        )

    def valid_row(self) -> dict[str, Any]:
        """Return a row with values like those of training."""
        return {column["name"]: self._cell(column) for column in self._columns}

    def next(self) -> FuzzRequest:
        """Return the next request, damaged in one way or two."""
        request = self._random.choice(self._forms)()
        if self._random.random() < 0.5:
            request = self._with_damaged_bytes(request)
        if self._random.random() < 0.15:
            name, value = self._random.choice(ODD_HEADERS)
            request = FuzzRequest(request.path, request.body, request.headers | {name: value}, request.method)
        return request

    def _cell(self, column: dict[str, Any]) -> Any:
        if column["levels"]:
            return self._random.choice(column["levels"])
        if column["kind"] == "datetime":
            return "2024-05-06T07:08:09" if not column["time_format"] else None
        if column["kind"] == "boolean":
            return self._random.random() < 0.5
        training = column["training"] or {}
        low, high = training.get("low"), training.get("high")
        return self._random.choice((low, high)) if isinstance(low, int | float) else "text"

    def _damaged(self, value: Any) -> Any:
        """Return a JSON value with some of its parts replaced, removed or repeated."""
        value = copy.deepcopy(value)
        for _ in range(self._random.choice((0, 1, 1, 2, 5))):
            parent: Any = None
            key: Any = None
            at = value
            while isinstance(at, dict | list) and at and (parent is None or self._random.random() < 0.8):
                parent, key = at, self._random.choice(list(at) if isinstance(at, dict) else range(len(at)))
                at = at[key]
            if parent is None:
                return self._random.choice(ODD_VALUES)
            act = self._random.random()
            if act < 0.7:
                parent[key] = copy.deepcopy(self._random.choice(ODD_VALUES))
            elif act < 0.85:
                del parent[key]
            elif isinstance(parent, list):
                parent.extend(copy.deepcopy(parent))
            else:
                parent[self._random.choice(("columns", "inputs", "\0", "x"))] = copy.deepcopy(at)
        return value

    def _json(self) -> FuzzRequest:
        rows = [self.valid_row() for _ in range(self._random.choice((1, 1, 3, 40)))]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        body = self._random.choice((rows[0], rows, {"columns": columns}))
        return FuzzRequest("/predict", json.dumps(self._damaged(body)).encode(), {"Content-Type": "application/json"})

    def _lines(self) -> FuzzRequest:
        rows = [self._damaged(self.valid_row()) for _ in range(3)]
        body = "\n".join(map(json.dumps, rows)).encode()
        return FuzzRequest("/predict", body, {"Content-Type": "application/x-ndjson"})

    def _arrow(self) -> FuzzRequest:
        import pyarrow as pa

        rows = [self.valid_row() for _ in range(3)]
        arrays = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
        name = self._random.choice(list(arrays))
        odd = ([None] * 3, [[1]] * 3, [b"\xff"] * 3, [2**62] * 3, [float("inf")] * 3, [{"a": 1}] * 3)
        arrays[name] = pa.array(self._random.choice(odd))
        table = pa.table(arrays)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return FuzzRequest("/predict", sink.getvalue().to_pybytes(), {"Content-Type": ARROW})

    def _inputs(self) -> list[dict[str, Any]]:
        rows = [self.valid_row() for _ in range(2)]
        found = []
        for column in self._columns:
            values = [row[column["name"]] for row in rows]
            kind = {"numeric": "FP64", "boolean": "BOOL"}.get(column["kind"], "BYTES")
            found.append({"name": column["name"], "datatype": kind, "shape": [2], "data": values})
        return found

    def _tensors(self) -> FuzzRequest:
        request = {"id": "1", "inputs": self._inputs(), "outputs": [{"name": self._model.output_names[0]}]}
        body = json.dumps(self._damaged(request)).encode()
        return FuzzRequest(f"/v2/models/{self._model.name}/infer", body, {"Content-Type": "application/json"})

    def _binary(self) -> FuzzRequest:
        inputs, chunks = self._inputs(), []
        for tensor in inputs:
            values = tensor.pop("data")
            if tensor["datatype"] == "BYTES":
                texts = [str(value).encode() for value in values]
                chunks.append(b"".join(struct.pack("<I", len(text)) + text for text in texts))
            else:
                form = "d" if tensor["datatype"] == "FP64" else "?"
                chunks.append(struct.pack(f"<2{form}", *(0 if value is None else value for value in values)))
            tensor["parameters"] = {"binary_data_size": len(chunks[-1])}
        head = {"inputs": inputs, "parameters": {"binary_data_output": True}}
        damaged = head if self._random.random() < 0.5 else self._damaged(head)
        content = json.dumps(damaged).encode()
        headers = {"Inference-Header-Content-Length": str(len(content)), "Content-Type": "application/octet-stream"}
        return FuzzRequest(f"/v2/models/{self._model.name}/infer", content + b"".join(chunks), headers)

    def _get(self) -> FuzzRequest:
        paths = ("/", "/schema", "/openapi.json", "/metrics", "/v2", "/v2/models/%00", "/v2/models/a%2Fb/ready", "//x")
        method = self._random.choice(("GET", "GET", "HEAD", "OPTIONS", "DELETE", "POST", "PATCH"))
        return FuzzRequest(self._random.choice(paths), b"", {}, method)

    def _with_damaged_bytes(self, request: FuzzRequest) -> FuzzRequest:
        body = bytearray(request.body)
        for _ in range(self._random.choice((1, 1, 3, 20))):
            at, act = self._random.randrange(len(body) + 1), self._random.randrange(4)
            if act == 0 and at < len(body):
                body[at] = self._random.randrange(256)
            elif act == 1:
                body[at:at] = self._random.choice((b"\0", b'"', b"[", b"{", b"}", b"\xff" * 4, b"1e999", b"NaN", b"\n"))
            elif act == 2:
                del body[at : at + self._random.choice((1, 8, len(body)))]
            else:
                body[at:at] = body[max(0, at - 30) : at]
        return FuzzRequest(request.path, bytes(body), request.headers, request.method)


def send(port: int, request: FuzzRequest, kept: list[http.client.HTTPConnection]) -> tuple[int, bytes]:
    """Return status and body of the response; `kept` has the open connection between calls."""
    connection = kept.pop() if kept else http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    headers = {name: value for name, value in request.headers.items() if name != "Transfer-Encoding"}
    is_chunked = "Transfer-Encoding" in request.headers
    body: Any = iter([request.body[:50], request.body[50:]]) if is_chunked else request.body
    try:
        connection.request(request.method, request.path, body, headers, encode_chunked=is_chunked)
        response = connection.getresponse()
        content = response.read()
    except (http.client.HTTPException, OSError):
        connection.close()
        raise
    if response.will_close:
        connection.close()
    else:
        kept.append(connection)
    return response.status, content


def problem_of(status: int, content: bytes, request: FuzzRequest, known: set[int]) -> str:
    """Return what is wrong with a response, or ``""``."""
    if status >= 500:
        return f"status {status}"
    if status not in known:
        return f"the OpenAPI document has no status {status}"
    if status >= 400 and request.method != "HEAD":
        try:
            if set(json.loads(content)) != {"error", "code", "problems"}:
                return "an error body of another shape"
        except ValueError:
            return "an error body that is not JSON"
        if b"Traceback" in content or b'.py"' in content or b"site-packages" in content:
            return "an error body with internals"
    return ""


def fuzz(model_path: str, n_requests: int, seed: int, keep: Path, n_derived: int) -> int:
    """Run the campaign; return 1 if a request failed."""
    maker = RequestMaker(ServedModel.load(model_path), seed)
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    command = python_command("-m", "gpupipe", "serve", model_path, "--port", "0", "--max-body", "1MiB")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        port = int(url.rpartition(":")[2])
        kept: list[http.client.HTTPConnection] = []
        status, content = send(port, FuzzRequest("/openapi.json", b"", method="GET"), kept)
        documented = json.loads(content)["paths"]
        known = {int(code) for item in documented.values() for method in item.values() for code in method["responses"]}
        known.add(405)  # of methods that the document does not have
        known.add(404)
        for number in range(n_requests):
            request = maker.next()
            try:
                status, content = send(port, request, kept)
                problem = problem_of(status, content, request, known)
            except TimeoutError:
                status, problem = 0, "no answer in time"
            except (http.client.HTTPException, OSError, ValueError) as error:
                if isinstance(error, ValueError):  # the client refuses to send the header
                    counts["not sent"] += 1
                    continue
                status, problem = 0, f"connection: {type(error).__name__}"
            counts[str(status)] += 1
            if problem:
                failures[problem] += 1
                keep.mkdir(parents=True, exist_ok=True)
                head = f"{request.method} {request.path} {request.headers}\n{problem}\n".encode()
                (keep / f"{seed}-{number}.txt").write_bytes(head + request.body)
        if n_derived:
            from tools.openapi_campaign import run_campaign

            for failure in run_campaign(url, n_derived, seed):
                failures[failure] += 1
        row = json.dumps(maker.valid_row()).encode()
        status, _ = send(port, FuzzRequest("/predict", row, {"Content-Type": "application/json"}), [])
        if status != 200:
            failures["a valid request afterwards"] += 1
        process.terminate()
        code = process.wait(SECONDS)
        failures["exit code"] += code != 143
    failures = +failures
    print(
        json.dumps({"requests": sum(counts.values()), "statuses": dict(sorted(counts.items())), "failures": failures})
    )
    return int(bool(failures))


def main() -> int:
    """Read the arguments and run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="RUN_OR_MODEL")
    parser.add_argument("--requests", type=int, default=20_000, help="number of requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz-server"), help="folder for failing requests")
    parser.add_argument("--schemathesis", type=int, default=0, metavar="N", help="also send N requests of schemathesis")
    asked = parser.parse_args()
    return fuzz(asked.model, asked.requests, asked.seed, asked.keep, asked.schemathesis)


if __name__ == "__main__":
    sys.exit(main())
