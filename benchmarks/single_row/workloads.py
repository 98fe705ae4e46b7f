"""Workloads of single rows: what is trained, and the rows that are predicted."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.children import child_environment, python_command
from gpupipe.errors import ConfigError
from gpupipe.files.jsonfile import dumps, write_json

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.typing import HostArray

ROOT = Path(__file__).parents[2]
CHURN_ROWS = 50_000
CHURN_SEED = 7
FRESH_SEED = 1007
N_FRESH = 20_000
XGBOOST, LOGISTIC = "xgboost", "logistic_regression"
PEERS = ("sklearn", "skrub")


@dataclass(frozen=True)
class Workload:
    """A model and the rows that it predicts.

    Attributes
    ----------
    name : str
    config : str
        File name of the configuration, in configs/.
    model : str
        The exported model, `XGBOOST` or `LOGISTIC`.
    overrides : mapping of str to str
        Settings of the run that differ from the configuration.
    parameters : mapping of str to int or float
        Parameters of the model in the peers.
    """

    name: str
    config: str
    model: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """Name of the table: ``churn`` or ``telco``."""
        return self.config.removesuffix(".yaml")


CHURN_TREES = {"n_estimators": 150, "max_depth": 4, "learning_rate": 0.1}
TELCO_TREES = {
    "n_estimators": 300, "max_depth": 3, "learning_rate": 0.03, "subsample": 0.8, "colsample_bytree": 0.6,
}  # fmt: skip
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("churn-xgboost", "churn.yaml", XGBOOST, {"models": dumps([{XGBOOST: CHURN_TREES}])}, CHURN_TREES),
        Workload("churn-logistic", "churn.yaml", LOGISTIC, {"models": dumps([LOGISTIC])}),
        Workload("telco", "telco.yaml", XGBOOST, {}, TELCO_TREES),
    )
}


def prepare(workload: Workload, folder: Path, peers: Sequence[str] = PEERS) -> None:
    """Train gpupipe's model and `peers` of a workload in `folder`, except for files that it contains.

    Raises
    ------
    ConfigError
        If a run fails or exports another model than the peers use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "run").exists():
        train_run(workload, folder / "run")
    if not (folder / "rows.pkl").exists():
        (folder / "rows.pkl").write_bytes(pickle.dumps(_fresh(workload)))
    for peer in peers:
        path = folder / f"{peer}.pkl"
        if not path.exists():
            path.write_bytes(pickle.dumps(_fit_peer(peer, workload)))
    if peers and not (folder / "quality.json").exists():
        write_json(folder / "quality.json", _quality(workload, folder, peers))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows to predict: raw values by column; None is missing. Those of churn were not used in training."""
    found: list[dict[str, Any]] = pickle.loads((folder / "rows.pkl").read_bytes())
    return found


def read_peer(folder: Path, peer: str) -> Any:
    """Return a peer that `prepare` trained."""
    return pickle.loads((folder / f"{peer}.pkl").read_bytes())


def train_run(workload: Workload, output: Path, seed: int | None = None) -> None:
    """Train gpupipe's model, and export it to the new run directory `output`.

    Raises
    ------
    ConfigError
        If the run fails or exports another model than the peers use.
    """
    overrides = {
        **workload.overrides, "report.enabled": "false", "evaluate.importance": "false",
        **({} if seed is None else {"seed": str(seed)}),
    }  # fmt: skip
    sets = [word for name, value in overrides.items() for word in ("--set", f"{name}={value}")]
    config = str(ROOT / "configs" / workload.config)
    command = python_command("-m", "gpupipe", "run", config, "--output", str(output), "--json", *sets)
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"the run ended with exit code {done.returncode}:\n{done.stderr}", where=workload.config)
    best = json.loads(done.stdout)["best"]
    if best != workload.model:
        raise ConfigError(f"expected the model {workload.model!r}, found {best!r}", where=workload.config)


def read_quality(folder: Path) -> dict[str, float]:
    """Return the ROC-AUC of gpupipe's model (``run``) and of the peers; empty without rows to test on."""
    found: dict[str, float] = json.loads((folder / "quality.json").read_text(encoding="utf8"))
    return found


def _quality(workload: Workload, folder: Path, peers: Sequence[str]) -> dict[str, float]:
    if workload.table != "churn":  # its rows are those of the training
        return {}
    from sklearn.metrics import roc_auc_score

    from gpupipe import load_model

    frame, y = _split(_churn(N_FRESH, FRESH_SEED))
    models = {"run": load_model(folder / "run"), **{peer: read_peer(folder, peer) for peer in peers}}
    return {name: float(roc_auc_score(y, model.predict_proba(frame)[:, 1])) for name, model in models.items()}


def training_frame(workload: Workload) -> tuple[pd.DataFrame, HostArray]:
    """Return the inputs and the target of the training table, as a user of pandas reads it."""
    return _split(_churn(CHURN_ROWS, CHURN_SEED) if workload.table == "churn" else _telco())


def _fresh(workload: Workload) -> list[dict[str, Any]]:
    frame, _ = _split(_churn(N_FRESH, FRESH_SEED) if workload.table == "churn" else _telco())
    return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    """Return a cell as a client has it: NaN is None, and times are datetimes."""
    if value != value:
        return None
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _churn(rows: int, seed: int) -> pd.DataFrame:
    from gpupipe.datasets.churn import customers

    frame: pd.DataFrame = customers(rows, seed).to_pandas()
    codes = frame.select_dtypes("category").columns
    return frame.astype(dict.fromkeys(codes, "str"))


def _telco() -> pd.DataFrame:
    import pandas as pd

    data = os.environ.get("GPUPIPE_DATA")
    if not data:
        raise ConfigError("GPUPIPE_DATA is not set", where="environment", fix="see configs/README.md")
    path = Path(data) / "telco-churn" / "Telco-Customer-Churn.csv"
    return pd.read_csv(path, na_values={"TotalCharges": [" "]})


def _split(frame: pd.DataFrame) -> tuple[pd.DataFrame, HostArray]:
    y = (frame["Churn"] == "Yes").to_numpy().astype("int64")
    return frame.drop(columns=["customerID", "Churn"]), y


def _fit_peer(peer: str, workload: Workload) -> Any:
    from importlib import import_module

    frame, y = training_frame(workload)
    pipeline = import_module(f"..peers.single_row_{peer}", __package__).pipeline
    return pipeline(workload.table, workload.model, workload.parameters).fit(frame, y)
