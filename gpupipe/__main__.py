"""``python -m gpupipe`` is ``gpupipe``."""

from __future__ import annotations

import sys

from gpupipe.cli import main

if __name__ == "__main__":
    sys.exit(main())
