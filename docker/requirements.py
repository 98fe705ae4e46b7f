"""Print what pip must install for an extra: ``python requirements.py pyproject.toml cpu``.

An image installs it before the package is copied, so that a change of the code does not download CUDA anew.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extra: str) -> list[str]:
    """Return the requirements of the core and of an extra, and of what builds the package."""
    document = tomllib.loads(pyproject.read_text(encoding="utf8"))
    project = document["project"]
    return [*document["build-system"]["requires"], *project["dependencies"], *project["optional-dependencies"][extra]]


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2])))
