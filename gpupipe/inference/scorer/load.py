"""Scorers of models, read from their directory without Arrow or pandas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.artifact import ArtifactReader, PathLike, trusted_keys
from gpupipe.backends.engines import scorer_engine
from gpupipe.inference.prediction.parts import read_parts
from gpupipe.inference.scorer.scorer import Scorer
from gpupipe.model_parts.folder import model_folder

if TYPE_CHECKING:
    from gpupipe.inference.explanation.compute import ModelExplainer
    from gpupipe.inference.model import Model
    from gpupipe_kernels.engines import HostEngine


def load_scorer(
    path: str | Path,
    *,
    allow_code: bool = False,
    engine: HostEngine | None = None,
    trust: PathLike | Sequence[PathLike] | None = None,
) -> Scorer:
    """Load a model as a scorer of single rows, and check each of its files.

    It imports neither Arrow nor pandas, and needs them for values of rare types only. XGBoost and linear models need no
    further library, nor do `mlp` and `tabm`; other networks need ONNX Runtime or PyTorch, the others scikit-learn.

    Parameters
    ----------
    path : str or Path
        A model directory, a run directory that contains one, or a folder of generations.
    allow_code : bool
        Allow compiling and running the custom kernels in the model. Without kernels it has no effect.
    engine : {"numpy", "numba"}, optional
        ``"numba"``: loops compiled to machine code, which takes seconds once and is then cached on disk. None: numba if
        it is installed. The results are the same, bit for bit.
    trust
        As in `gpupipe.load_model`.

    Returns
    -------
    Scorer

    Raises
    ------
    ArtifactError
        If a file is missing, corrupt or altered, the format version is not supported, or the model contains code and
        `allow_code` is false. With `trust`, also if it is not signed with a trusted key, or was changed since.
    ConfigError
        If `engine` is unknown or not installed, or `trust` names something else than a key.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline, load_scorer
    >>> frame = pd.DataFrame({"age": range(100), "price": [0.5 * age + 2 for age in range(100)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = Pipeline(frame, target="price", models=["ridge"]).run(f"{folder.name}/run", quiet=True)
    >>> scorer = load_scorer(run.path)
    >>> round(scorer.predict({"age": 40}), 1)
    22.1
    >>> folder.cleanup()
    """
    return open_scorer(ArtifactReader(model_folder(path), trusted_keys(trust)), allow_code, scorer_engine(engine))


def open_scorer(reader: ArtifactReader, allow_code: bool, engine: HostEngine) -> Scorer:
    """Return the scorer of a checked model directory; see `load_scorer`."""
    parts = read_parts(reader, allow_code)

    def open_whole() -> Model:
        from gpupipe.inference.model import load_model

        return load_model(reader.folder, "cpu", allow_code=allow_code, trust=reader.trust or None)

    def open_explainer() -> ModelExplainer:  # reads the files again, so that other scorers keep nothing for it
        from gpupipe.inference.explanation.compute import ModelExplainer

        again = read_parts(reader, allow_code)
        return ModelExplainer.read(reader, again.goal, again.features, again.estimator)

    return Scorer.of(
        parts,
        engine=engine,
        manifest=reader.manifest,
        open_model=cache(open_whole),
        open_explainer=open_explainer,
    )
