"""Child processes that run Python: how they are started, and children that answer questions about untrusted input.

Native parsers of damaged or hostile files may crash, hang or take all memory. A `Child` does such work in a process of
its own, under limits, and answers over a socket. Its answers are untrusted too: bytes of bounded length, no pickle.

Every process of ours that runs Python is started by `python_command`: ``python -m`` and ``python -c`` import from the
current folder first, which may hold a ``json.py`` beside untrusted data.
"""

from gpupipe.children.child import Child, ChildError, ChildLimits
from gpupipe.children.commands import (
    child_environment,
    private_environment,
    python_command,
    script_command,
    script_environment,
)
from gpupipe.children.server import serve

__all__ = [
    "Child",
    "ChildError",
    "ChildLimits",
    "child_environment",
    "private_environment",
    "python_command",
    "script_command",
    "script_environment",
    "serve",
]
