"""Name of the account that writes outputs."""

from __future__ import annotations


def account_name() -> str:
    """Return the name of the account of this process; ``"unknown"`` in a container that has no such user."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
