"""Resets between the scripts of the gallery."""

from __future__ import annotations

import multiprocessing
from typing import Any


def reset_start_method(gallery_conf: dict[str, Any], fname: str) -> None:
    """Have processes started as Python does by default.

    The gallery is run by joblib, whose workers set the start method loky. Processes of Dask inherit it from
    a worker and fail, because they do not import joblib (joblib 1.5, distributed 2026.8).
    """
    multiprocessing.set_start_method(None, force=True)
