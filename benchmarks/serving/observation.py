"""Memory and connections of the processes of a server, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
ESTABLISHED = "01"


def resident_bytes(pid: int) -> int | None:
    """Return the resident memory of a process; None if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE or None
    except OSError:
        return None


def connections_by_process(pids: list[int], port: int) -> dict[int, int]:
    """Return the process that serves each connection to a server's port, by the port of the client."""
    clients = {}
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        local = fields[1]
        remote = fields[2]
        state = fields[3]
        inode = fields[9]
        if state == ESTABLISHED and int(local.partition(":")[2], 16) == port:
            clients[f"socket:[{inode}]"] = int(remote.partition(":")[2], 16)
    found = {}
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(descriptor)
            except OSError:  # closed in the meantime
                continue
            if target in clients:
                found[clients[target]] = pid
    return found
