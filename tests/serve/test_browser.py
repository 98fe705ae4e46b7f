"""Web pages of other sites in a real browser: what they send is not predicted, and they read no answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest

import gpupipe as gp

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FRIEND, FOREIGN = "friend.localhost", "127.0.0.1"
PAGE = """<!doctype html><body><script>
const server = "%s";
const text = JSON.stringify({"inputs": [{"name": "x", "shape": [1], "datatype": "FP64", "data": [1.5]}]});
const infer = server + "/v2/models/m/infer";
const send = (type, mode) => fetch(infer, {method: "POST", mode, headers: {"content-type": type}, body: text});
const tries = {
  simple: () => send("text/plain", "no-cors"),
  form: () => send("application/x-www-form-urlencoded", "no-cors"),
  json: () => send("application/json", "cors"),
  read: () => fetch(server + "/schema"),
  beacon: async () => ({status: navigator.sendBeacon(infer, text)}),
};
(async () => {
  const found = {};
  for (const [name, run] of Object.entries(tries)) {
    found[name] = await run().then(async answer => String(answer.status), () => "blocked");
  }
  await new Promise(done => setTimeout(done, 300));
  document.body.innerText = "FOUND" + JSON.stringify(found) + "END";
})();
</script>"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the URL of a server that allows the pages of `FRIEND`."""
    command = [
        sys.executable,
        "-m",
        "gpupipe",
        "serve",
        str(folder),
        "--port",
        "0",
        "--name",
        "m",
        "--allow-host",
        FRIEND,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def predicted_rows(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(r"^gpupipe_rows_total\S* (\S+)", text, re.MULTILINE))


def visit(address: str, profile: Path) -> dict[str, str]:
    """Open a page in a headless browser; return the outcome of its requests."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--timeout=60000",
        "--virtual-time-budget=60000", "--dump-dom", address,
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False).stdout
    found = re.search("FOUND(.*)END", shown)
    assert found is not None, shown[-2000:]
    outcome: dict[str, str] = json.loads(found[1])
    return outcome


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_page_of_another_site_neither_predicts_nor_reads(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": [i / 7 for i in range(100)], "y": [0, 1] * 50})
    gp.Pipeline(rows, target="y", models=["gaussian_nb"]).run(tmp_path / "run", quiet=True)
    (tmp_path / "site").mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with served(tmp_path / "run") as url, ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        (tmp_path / "site" / "page.html").write_text(PAGE % url)
        foreign = visit(f"http://{FOREIGN}:{site.server_port}/page.html", tmp_path / "profile")
        assert predicted_rows(url) == 0
        assert (foreign["json"], foreign["read"]) == ("blocked", "blocked")
        visit(f"http://{FRIEND}:{site.server_port}/page.html", tmp_path / "profile")
        assert predicted_rows(url) > 0  # the page works: those rows were refused, not malformed
        site.shutdown()
