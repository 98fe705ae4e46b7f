"""`StoredBooster`: a Booster that XGBoost reads when it is first needed."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpupipe.models.fitted.row_estimator import RowEstimator

# Rows times trees that a walk predicts before the Booster does. They take less time than the import of XGBoost, which
# imports scikit-learn, SciPy and pandas.
WALKED = 1 << 20
# Before this version, a Booster has one base score, and reads the list of a newer file as another number.
OLDEST = 3, 1


class StoredBooster:
    """A Booster in the content of a checked file. Its attributes are those of the Booster.

    Until the Booster has been used, a walk of the trees predicts small tables: its digits are the same, and a command
    that scores some rows ends before XGBoost would have been imported.

    `data` is what XGBoost reads, the checked fields of a file as UBJ, and `document` the same fields, parsed. `n_trees`
    is 0 if only XGBoost itself has the digits of the model. `n_models` are read together, as those of an ensemble.
    """

    def __init__(
        self, data: bytes, where: str, n_trees: int, document: Mapping[str, Any] | None = None, n_models: int = 1
    ) -> None:
        self._data = data
        self._where = where
        self._n_trees = n_trees
        self._document = document
        self._budget = WALKED // n_models
        self.walk: RowEstimator | None = None

    @cached_property
    def booster(self) -> Any:
        """The Booster; raise ArtifactError if XGBoost is not installed, or rejects the file."""
        try:
            import xgboost
        except ImportError as error:
            what = f"the model needs XGBoost, except to predict few rows: {error}"
            raise ArtifactError(what, where=self._where, fix="pip install 'gpupipe[cpu]'") from error
        self._document = None
        if tuple(map(int, xgboost.__version__.split(".")[:2])) < OLDEST:
            what = f"XGBoost {xgboost.__version__} would read the base scores of this model wrongly"
            raise ArtifactError(what, where=self._where, fix=f"pip install 'xgboost-cpu>={'.'.join(map(str, OLDEST))}'")
        try:
            with warnings.catch_warnings():  # files of other XGBoost versions; the manifest records the version
                warnings.filterwarnings("ignore", category=UserWarning, module="xgboost")
                return xgboost.Booster(model_file=bytearray(self._data))
        except xgboost.core.XGBoostError as error:
            fix = "export the model again"
            raise ArtifactError(f"not an XGBoost model: {error}", where=self._where, fix=fix) from error

    def take_document(self) -> Mapping[str, Any] | None:
        """Return the parsed fields, which are then released; None the next time, and once XGBoost has read them."""
        document, self._document = self._document, None
        return document

    def takes_walk(self, n_rows: int) -> bool:
        """Return whether a walk is to predict `n_rows` rows; they count towards `WALKED`."""
        if not self._n_trees or "booster" in vars(self):
            return False
        self._budget -= n_rows * self._n_trees
        return self._budget >= 0

    def save_raw(self, raw_format: str = "ubj") -> bytes:
        """Return the model in a format of XGBoost; in UBJ, the stored content."""
        return self._data if raw_format == "ubj" else bytes(self.booster.save_raw(raw_format=raw_format))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a copy that is being unpickled
            raise AttributeError(name)
        return getattr(self.booster, name)

    def __getstate__(self) -> Mapping[str, Any]:
        return vars(self) | {"walk": None, "_document": None}
