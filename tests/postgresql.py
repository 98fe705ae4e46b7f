"""A PostgreSQL server from the distribution, for tests; stopped by the tests that start it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

UNPRIVILEGED = 65534  # user id without rights on Linux
USER, PASSWORD = "ada", "Tr0ub4dor&3"


def binaries() -> Path:
    """Return the folder of the server's programs; skip the test if it is not installed."""
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.skip("PostgreSQL is not installed: apt-get install postgresql")


class PostgresqlServer:
    """A server with a new database cluster."""

    def __init__(self) -> None:
        self.programs, self.folder = binaries(), Path(tempfile.mkdtemp(prefix="gpupipe-postgresql-"))
        self.data = self.folder / "data"
        self.owner = pwd.getpwuid(UNPRIVILEGED) if os.geteuid() == 0 else None  # the server refuses to run as root
        self._make_cluster()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = {"fsync": "off", "listen_addresses": "127.0.0.1", "shared_buffers": "16MB", "max_connections": "10"}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.folder, *settings],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._as_owner,
        )  # fmt: skip
        self.wait()

    def uri(self, user: str = USER, password: str = PASSWORD, database: str = "postgres") -> str:
        """Return the URI of a database."""
        from urllib.parse import quote

        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def connect(self) -> Any:
        """Return a connection that commits each statement."""
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(self.uri(), autocommit=True)

    def execute(self, *statements: str) -> None:
        """Run statements."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def wait(self) -> None:
        """Wait until the server reports that it accepts connections, after its start or a crash of a connection."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if "ready to accept connections" in line:  # a message of PostgreSQL
                return
        pytest.fail(f"PostgreSQL did not start: {''.join(lines)[-1000:]}")

    def stop(self) -> None:
        """Stop the server and remove its files."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _as_owner(self) -> dict[str, Any]:
        owned = (
            {} if self.owner is None else {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}
        )
        return {"start_new_session": True, **owned}

    def _make_cluster(self) -> None:
        password = self.folder / "password"
        password.write_text(f"{PASSWORD}\n")
        self._give()
        subprocess.run(
            [self.programs / "initdb", "-D", self.data, "-U", USER, "-A", "scram-sha-256", "--pwfile", password,
             "--no-sync", "--no-locale", "-E", "UTF8"],
            check=True, capture_output=True, **self._as_owner,
        )  # fmt: skip

    def _give(self) -> None:
        if self.owner is not None:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
