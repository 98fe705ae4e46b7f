"""Load and use crafted estimators, each in a forked child.

``python -m tests.models.scikit_learn.hostile_worker FOLDER`` starts it.

Prints one JSON object: the exit code of each case (negative: the signal that ended it), and its output.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import sklearn.ensemble
import sklearn.neighbors
import xgboost

from gpupipe.errors import GpupipeError
from gpupipe.models import predict_loaded
from tests.models.folder_files import load_fitted
from tools.fuzz.forked_child import ForkLimits, run_forked

IMPORTED = (sklearn.ensemble, sklearn.neighbors, xgboost)  # once for all children
LIMITS = ForkLimits(cpu_seconds=10, wall_seconds=60, memory_bytes=2 << 30)


def use(folder: Path, verdict: int) -> int:
    """Load the estimator of a case and predict its rows; return the exit code that the command line would have."""
    try:
        model = load_fitted(folder, json.loads((folder / "description.json").read_text()))
        os.write(verdict, b"loaded; ")
        (found,) = predict_loaded(model, np.load(folder / "X.npy"), str(folder)).arrays.values()
        np.save(folder / "found.npy", found)
    except GpupipeError as error:
        os.write(verdict, error.what.encode())
        return error.exit_code
    return 0


if __name__ == "__main__":
    cases = sorted(Path(sys.argv[1]).iterdir())
    outcomes = [run_forked([partial(use, case)], LIMITS)[0] for case in cases]
    said = {case.name: [o.code, o.hung, o.verdict or o.stderr[-500:]] for case, o in zip(cases, outcomes, strict=True)}
    print(json.dumps(said))
