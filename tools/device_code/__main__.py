"""Build of the shipped machine code: ``python -m tools.device_code``, in about a minute.

``--check`` writes nothing, and prints what is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpupipe_kernels.device import binaries
from gpupipe_kernels.proof.device_compilers import INSTALL, missing_compiler
from tools.device_code.build import build, differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and write, or compare; return 1 if a compiler is missing or the shipped code is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.device_code", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare a build with the shipped code")
    options = parser.parse_args(arguments)
    if missing := missing_compiler():
        print(f"{missing}: {INSTALL}", file=sys.stderr)
        return 1
    built = build()
    if options.check:
        found = differences(built)
        print("\n".join(found) or "the shipped code is up to date")
        return int(bool(found))
    built.write()
    sizes = {path.name: path.stat().st_size for path in sorted(binaries.FOLDER.iterdir())}
    for name, size in sizes.items():
        print(f"{size:>9,} {name}")
    print(f"{sum(sizes.values()):>9,} bytes, {len(built.manifest['entries'])} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
