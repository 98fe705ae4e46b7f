"""Requirements of some extras, printed for pip: ``python requirements.py pyproject.toml cpu cluster``.

An image installs them before the package is copied, so that a change of the code does not download CUDA again.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """Return the requirements of the core, the extras and the build backend."""
    document = tomllib.loads(pyproject.read_text(encoding="utf8"))
    project = document["project"]
    of_extras = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [*document["build-system"]["requires"], *project["dependencies"], *of_extras]


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2:])))
