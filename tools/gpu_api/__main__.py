"""Check the product against a snapshot: ``python -m tools.gpu_api SNAPSHOT``."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.gpu_api.api import Api
from tools.gpu_api.product import problems


def main(path: str) -> int:
    """Print one line per problem; return 1 if there are any, else 0."""
    api = Api(Path(path))
    found = problems(api)
    print(*found, f"{len(found)} problems with cuDF {api.versions['cudf']}, cuML {api.versions['cuml']}", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
