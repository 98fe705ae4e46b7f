"""The messages between a child process and its parent: a header of fixed size, then bytes."""

from __future__ import annotations

import struct

from gpupipe.units import MIB

QUESTION = struct.Struct("!dQ")  # seconds allowed, bytes that follow
ANSWER = struct.Struct("!BQ")  # kind, bytes that follow
READY, REPLY, OUT_OF_MEMORY = 1, 2, 3
CHUNK = MIB  # bytes moved at once
