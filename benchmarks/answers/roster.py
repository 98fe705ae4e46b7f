"""The contenders, and the interpreters of their environments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.answers.cells import Contender

GPUPIPE = "gpupipe"
SKLEARN = "sklearn"
SKRUB = "skrub"
FLAML = "flaml"
AUTOGLUON = "autogluon"
TABLES = "tables"
ENVIRONMENTS = (GPUPIPE, SKLEARN, SKRUB, FLAML, AUTOGLUON, TABLES)
# name → module, environment, settings and whether it has a time limit
_CONTENDERS: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "gpupipe-init": ("gpupipe_run", GPUPIPE, {"models": "init"}, False),
    "gpupipe-init-plain": ("gpupipe_run", GPUPIPE, {"models": "init", "generate": False}, False),
    "gpupipe-init-generate": ("gpupipe_run", GPUPIPE, {"models": "init", "generate": True}, False),
    "gpupipe-best": ("gpupipe_run", GPUPIPE, {"models": "best", "generate": False}, True),
    "gpupipe-best-generate": ("gpupipe_run", GPUPIPE, {"models": "best", "generate": True}, True),
    "gpupipe-xgboost": ("gpupipe_run", GPUPIPE, {"models": ["xgboost"], "generate": False}, False),
    "gpupipe-xgboost-generate": ("gpupipe_run", GPUPIPE, {"models": ["xgboost"], "generate": True}, False),
    "sklearn-linear": ("sklearn_plain", SKLEARN, {"model": "linear"}, False),
    "sklearn-boosting": ("sklearn_plain", SKLEARN, {"model": "boosting"}, False),
    "sklearn-best": ("sklearn_plain", SKLEARN, {"model": "best"}, False),
    "skrub": ("skrub_pipeline", SKRUB, {}, False),
    "flaml": ("flaml_automl", FLAML, {}, True),
    "autogluon": ("autogluon_best", AUTOGLUON, {"preset": "best_quality"}, True),
    "autogluon-sequential": ("autogluon_best", AUTOGLUON, {"preset": "best_quality", "folds": "sequential"}, True),
}
NAMES = tuple(_CONTENDERS)


def parse_pythons(values: Iterable[str]) -> dict[str, Path]:
    """Return the interpreter of each environment from ``NAME=PATH``; gpupipe's and scikit-learn's default to this one.

    Raises
    ------
    ValueError
        If an environment is unknown, or a path is not a file.
    """
    pythons = {GPUPIPE: Path(sys.executable), SKLEARN: Path(sys.executable)}
    for value in values:
        name, _, path = value.partition("=")
        if name not in ENVIRONMENTS:
            message = f"--python {value}: expected one of {', '.join(ENVIRONMENTS)} before '=', found {name!r}"
            raise ValueError(message)
        if not Path(path).is_file():
            message = f"--python {value}: {path!r} is not a file"
            raise ValueError(message)
        pythons[name] = Path(path).absolute()  # not resolved: a link of a virtual environment leads out of it
    return pythons


def select_contenders(names: Iterable[str], pythons: Mapping[str, Path]) -> list[Contender]:
    """Return the contenders with these names.

    Raises
    ------
    ValueError
        If a name is unknown, or the interpreter of its environment is not given.
    """
    chosen = []
    for name in names:
        if name not in _CONTENDERS:
            message = f"no contender is named {name!r}; there are {', '.join(NAMES)}"
            raise ValueError(message)
        module, environment, options, is_limited = _CONTENDERS[name]
        if environment not in pythons:
            message = f"{name} needs an interpreter: --python {environment}=PATH (see benchmarks/README.md)"
            raise ValueError(message)
        chosen.append(Contender(name, module, pythons[environment], options, is_limited))
    return chosen
