"""Entry point of ``python -m gpupipe``, the same as the command ``gpupipe``."""

from __future__ import annotations

import sys

from gpupipe.cli import main

if __name__ == "__main__":
    sys.exit(main())
