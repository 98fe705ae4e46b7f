"""Recognition of configuration files, so that nothing else is overwritten as one."""

from __future__ import annotations

from pathlib import Path

from gpupipe.config.composer import MAX_CHARACTERS, Composer
from gpupipe.config.document import UnreadableDocument
from gpupipe.config.sections import Config


def is_configuration(path: Path) -> bool:
    """Return whether a file has the sections of a configuration, right or wrong in detail, or has no content.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(4 * MAX_CHARACTERS + 1)
    if not content.strip():
        return True
    try:
        root = Composer({}, problems=[]).file(content.decode("utf-8-sig"), str(path))
    except (UnreadableDocument, UnicodeDecodeError):
        return False
    sections = set(root.value) if isinstance(root.value, dict) else set()
    return "source" in sections and sections <= set(Config.model_fields)
