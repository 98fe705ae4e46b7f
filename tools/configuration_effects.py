"""Table of SECURITY.md: what each setting of a configuration makes each command read, write, run or connect to.

The table is observed, not declared: every command runs on configurations that use all of these settings, while the
kernel reports which of their files are opened and changed (inotify) and sockets on this machine count connections.

    python -m tools.configuration_effects           # print the table
    python -m tools.configuration_effects --write   # write it into SECURITY.md

Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import socket
import struct
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from gpupipe.cli import main
from tools.fuzz.forked_child import ForkLimits, run_forked

SETTINGS = {
    "source": "`path`: files, folders, globs",
    "url": "`path`: URLs",
    "query": "`sql` and `uri` of a database file",
    "server": "`sql` and `uri` of a PostgreSQL server",
    "delta": "`delta`: a folder",
    "iceberg": "`iceberg` and `catalog`",
    "hook": "`prepare`: a Python function",
    "kernel": "`kernel`: a Python function",
    "estimator": "`estimator`: a Python function",
    "cache": "`cache`: a folder",
    "output": "`output`: a folder",
    "tracker": "`track.mlflow`: a server",
    "cluster": "`cluster.scheduler`: the file of a scheduler, with its address",
}
"""Settings as the table shows them, by the folder of their input."""

FIELDS = {
    "artifacts", "cache", "catalog", "dashboard_address", "delta", "directories", "frame", "iceberg", "mlflow", "mode",
    "output", "path", "prepare", "scheduler", "sql", "uri", "use",
}  # fmt: skip
"""Fields of the schema in the table or in the notes below it."""

COMMANDS = (
    "run", "check", "plan", "gpus", "check --no-code", "plan --no-code", "gpus --no-code", "check --no-data",
)  # fmt: skip
REFUSAL, LOST = 2, (4, 5)  # exit codes
EFFECTS = ("reads", "writes", "runs", "connects")
REFUSED, NOTHING = "refused", "–"
BEGIN, END = "<!-- effects: begin -->", "<!-- effects: end -->"
CODE_SETTINGS = {
    "hook": "prepare:", "kernel": "features[0]", "estimator": "models[0]", "query": "tables.shop.sql",
    "server": "tables.store.sql",
}  # fmt: skip
"""Settings in messages of --no-code."""

LIBRARIES = (
    "adbc_driver_postgresql.dbapi",
    "distributed",
    "fsspec.implementations.http",
    "gpupipe.plan.gpu_choice.estimates",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
)
PAGE = Path(__file__).parents[1] / "SECURITY.md"

# Of <sys/inotify.h>
IN_OPEN = 0x20
IN_CHANGED = 0x2 | 0x40 | 0x80 | 0x100 | 0x200
IN_ISDIR = 0x40000000
HEAD = struct.Struct("iIII")

CODE = """from pathlib import Path

def mark():
    Path({folder!r}, "ran").write_text("")

"""
HOOK = "def prepare(table):\n    mark()\n    return table\n"
KERNEL = "import gpupipe as gp\n\nmark()\n\n@gp.kernel\ndef twice(x):\n    return x + x\n"
ESTIMATOR = """from sklearn.linear_model import LogisticRegression

def make():
    mark()
    return LogisticRegression()
"""
KEY = {"on": "k", "cardinality": "one_to_one"}


class Probes:
    """A folder with one input per setting, and sockets that count connections.

    Parameters
    ----------
    root : Path
        An empty folder.
    """

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        for name in SETTINGS:
            (root / name).mkdir()
            (root / f"{name}-ran").mkdir()
        self.connections: dict[str, int] = defaultdict(int)
        self.rows = pa.table({"k": range(60), "x": [i % 7 for i in range(60)], "y": [0, 1, 1] * 20})
        pq.write_table(self.rows, root / "source" / "rows.parquet")
        stack.enter_context(self._http())
        self.ports = {name: stack.enter_context(self._listener(name)) for name in ("server", "tracker", "cluster")}
        folder = root / "iceberg"
        self.catalog = {
            "name": "shop", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/files",
        }  # fmt: skip
        run_forked([self._write_tables], ForkLimits())  # the engine of deltalake cannot be used after a fork
        for name, text in {"hook": HOOK, "kernel": KERNEL, "estimator": ESTIMATOR}.items():
            (root / name / "code.py").write_text(CODE.format(folder=str(root / f"{name}-ran")) + text)
        address = f"tcp://127.0.0.1:{self.ports['cluster']}"
        (root / "cluster" / "scheduler.json").write_text(json.dumps({"type": "Scheduler", "address": address}))

    def configurations(self) -> list[dict[str, Any]]:
        """Return configurations that together use all settings, each with one kind of them."""
        root, ports = self.root, self.ports
        plain = self._plain()
        tables = {
            "remote": {
                "path": f"http://127.0.0.1:{self.http_port}/more.parquet",
                **KEY,
                "prefix": "u_",
            },
            "lake": {"delta": str(root / "delta"), **KEY, "prefix": "d_"},
            "ice": {
                "iceberg": "shop.more",
                "catalog": self.catalog,
                **KEY,
                "prefix": "i_",
            },
        }
        tracked = {"mlflow": f"http://127.0.0.1:{ports['tracker']}", "timeout": "30s"}
        code = {
            "source": {**plain["source"], "prepare": f"{root}/hook/code.py:prepare"},
            "features": [{"kernel": {"use": f"{root}/kernel/code.py:twice", "inputs": ["x"]}}],
            "models": [{"estimator": {"use": f"{root}/estimator/code.py:make"}}],
        }
        query = {
            "sql": "SELECT * FROM more",
            "uri": f"duckdb:///{root}/query/shop.duckdb",
            **KEY,
        }
        server = {
            "sql": "SELECT 1 AS k",
            "uri": f"postgresql://127.0.0.1:{ports['server']}/shop",
            **KEY,
        }
        return [
            {**self._cached(), "tables": tables, "track": tracked},
            {**plain, **code, "tables": {"shop": query}},
            {**plain, "tables": {"store": server}},
            {**plain, "cluster": {"scheduler": str(root / "cluster" / "scheduler.json"), "deadline": 1}},
        ]

    def import_libraries(self) -> None:
        """Run a command in this process, so that its children need not import the libraries and find a cache."""
        path = self.root / "config.json"
        path.write_text(json.dumps(self._cached()))
        main(["run", str(path), "--quiet"])
        for module in LIBRARIES:
            import_module(module)

    def _plain(self) -> dict[str, Any]:
        return {
            "source": {"path": str(self.root / "source"), "target": "y", "id": "k", "cache": False},
            "models": ["gaussian_nb"],
            "output": str(self.root / "output"),
            "report": {"enabled": False},
        }

    def _cached(self) -> dict[str, Any]:
        plain = self._plain()
        return {**plain, "source": {**plain["source"], "cache": str(self.root / "cache")}}

    def _write_tables(self, _: int) -> int:
        more = self.rows.select(["k"]).append_column("z", pa.array(range(60)))
        pq.write_table(more, self.root / "url" / "more.parquet")
        with duckdb.connect(str(self.root / "query" / "shop.duckdb")) as connection:
            connection.execute(f"CREATE TABLE more AS FROM '{self.root}/url/more.parquet'")
        write_deltalake(self.root / "delta", more)
        catalog = load_catalog(**self.catalog)
        catalog.create_namespace("shop")
        catalog.create_table("shop.more", schema=more.schema).append(more)
        return 0

    def observe(self, command: Sequence[str], config: Mapping[str, Any]) -> dict[str, set[str]]:
        """Run a command on a configuration in a forked process; return the effects by setting.

        Raise RuntimeError if the command fails for another reason than a refusal or a lost connection.
        """
        path = self.root / "config.json"
        path.write_text(json.dumps(config))
        self.connections.clear()
        argv = [command[0], str(path), *command[1:], *(["--quiet"] if command[0] == "run" else [])]
        with Watch([folder for folder in self.root.rglob("*") if folder.is_dir()]) as watch:
            (done,) = run_forked([lambda _: main(argv)], ForkLimits())
            found = watch.effects(self.root)
        for name in self.connections:
            found[name].add("connects")
        found["url"].discard("reads")  # by the server
        if "--no-code" in command and done.code == REFUSAL:
            for name, setting in CODE_SETTINGS.items():
                if setting in done.stderr:
                    found[name].add(REFUSED)
        elif done.code not in (0, *LOST) or (done.code and not self.connections):
            raise RuntimeError(f"{' '.join(argv)} ended with {done.code}: {done.stderr}")
        return found

    @contextmanager
    def _listener(self, name: str) -> Iterator[int]:
        """Yield the port of a socket that closes each connection at once."""
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def accept() -> None:
                while True:
                    try:
                        connection, _ = listener.accept()
                    except OSError:
                        return
                    self.connections[name] += 1
                    connection.close()

            Thread(target=accept, daemon=True).start()
            yield listener.getsockname()[1]
            listener.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _http(self) -> Iterator[None]:
        probes = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                probes.connections["url"] += 1

        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(self.root / "url"))) as server:
            self.http_port = server.server_port
            Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()


class Watch:
    """Context manager that records which files of some folders are opened and changed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def __enter__(self) -> Watch:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK)
        add = partial(libc.inotify_add_watch, self._file)
        self._watched = {add(os.fsencode(folder), IN_OPEN | IN_CHANGED): folder for folder in self._folders}
        if self._file < 0 or -1 in self._watched:
            raise OSError(ctypes.get_errno(), "inotify failed")
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def effects(self, root: Path) -> dict[str, set[str]]:
        """Return the effects so far by the folder below `root`: ``reads``, ``writes`` and ``runs``."""
        found: dict[str, set[str]] = defaultdict(set)
        for watch, mask in self._events():
            below = self._watched[watch].relative_to(root).parts
            name, dash, _ = "".join(below[:1]).partition("-ran")
            if dash:
                found[name].add("runs")
            elif mask & IN_CHANGED:
                found[name].add("writes")
            elif mask & IN_OPEN and not mask & IN_ISDIR:
                found[name].add("reads")
        return found

    def _events(self) -> Iterator[tuple[int, int]]:
        while True:
            try:
                data = os.read(self._file, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = HEAD.unpack_from(data, at)
                at += HEAD.size + length
                yield watch, mask


def observe(commands: Collection[str] = COMMANDS) -> dict[str, dict[str, str]]:
    """Return the effects in words, by setting and command."""
    found: dict[str, dict[str, set[str]]] = {setting: defaultdict(set) for setting in SETTINGS}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        probes = Probes(Path(made), stack)
        probes.import_libraries()
        for config in probes.configurations():
            for command in commands:
                for setting, effects in probes.observe(command.split(), config).items():
                    if setting in found:
                        found[setting][command] |= effects
    return {setting: {command: _cell(found[setting][command]) for command in commands} for setting in found}


def _cell(effects: set[str]) -> str:
    if REFUSED in effects:
        return REFUSED if effects <= {REFUSED, "reads"} else f"{REFUSED}, but {', '.join(effects - {REFUSED})}"
    return ", ".join(each for each in EFFECTS if each in effects) or NOTHING


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table; commands with equal columns share one."""
    columns: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for command in COMMANDS:
        columns[tuple(cells[command] for cells in found.values())].append(f"`{command}`")
    head = [", ".join(names) for names in columns.values()]
    rows = [["setting", *head], ["---"] * (1 + len(head))]
    rows += [[name, *cells] for name, *cells in zip(SETTINGS.values(), *columns, strict=True)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def read_table(page: str) -> dict[str, dict[str, str]]:
    """Return the effects in the table of a page, by setting and command."""
    lines = page[page.index(BEGIN) : page.index(END)].splitlines()[1:]
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line)
    keys = {text: setting for setting, text in SETTINGS.items()}
    return {
        keys[name]: {
            command: cell
            for names, cell in zip(head[1:], cells, strict=True)
            for command in re.findall("`(.+?)`", names)
        }
        for name, *cells in rows
    }


def main_of_tool() -> None:
    """Print the table, or write it into SECURITY.md."""
    parser = argparse.ArgumentParser(prog="python -m tools.configuration_effects", description=__doc__)
    parser.add_argument("--write", action="store_true", help="Write the table into SECURITY.md.")
    made = table(observe())
    if not parser.parse_args().write:
        print(made, end="")
        return
    page = PAGE.read_text()
    PAGE.write_text(f"{page[: page.index(BEGIN)]}{BEGIN}\n\n{made}\n{page[page.index(END) :]}")


if __name__ == "__main__":
    main_of_tool()
