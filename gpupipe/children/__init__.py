"""Child processes: safe commands and environments, and limited workers for untrusted input.

Native parsers can crash, hang or exhaust memory on corrupt or malicious files. A `Child` runs them in a separate
process under limits and replies over a socket. Its replies are untrusted too: bytes of limited length, never pickle.

All Python child processes of gpupipe are started with `python_command`, because ``python -m`` and ``python -c`` import
from the current folder first, which may contain a ``json.py`` next to untrusted data.
"""

from gpupipe.children.child import Child, ChildError, ChildLimits, exit_error
from gpupipe.children.commands import (
    child_environment,
    private_environment,
    python_command,
    script_command,
    script_environment,
)
from gpupipe.children.server import limit_memory, serve

__all__ = [
    "Child",
    "ChildError",
    "ChildLimits",
    "child_environment",
    "exit_error",
    "limit_memory",
    "private_environment",
    "python_command",
    "script_command",
    "script_environment",
    "serve",
]
