"""Reader of models that predict several quantiles; their description is untrusted, so every value is checked."""

from __future__ import annotations

from typing import Any

from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.files.ensemble import LoadModel
from gpupipe.models.files.model_files import ModelFiles, PrefixedFiles
from gpupipe.models.fitted.quantiles import FittedQuantiles, file_prefix

MOST_QUANTILES = 1_000


def read_quantiles(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedQuantiles:
    """Return the model that `FittedQuantiles.save` wrote; arguments as in `gpupipe.models.files.ensemble`.

    Raises
    ------
    ArtifactError
        If a value of the description is invalid, or a model cannot be read.
    """
    models = description.get("models")
    is_list = isinstance(models, list) and 0 < len(models) <= MOST_QUANTILES
    if expected.task != "quantile" or not is_list or not all(isinstance(model, dict) for model in models or ()):
        what = f"the quantiles are invalid: expected up to {MOST_QUANTILES:,} models for the task quantile"
        raise ArtifactError(what, where=str(files.folder), fix="export the model again")
    assert isinstance(models, list)
    own = Description("regression", expected.feature_names, 0, (), len(models))
    loaded = tuple(load_model(PrefixedFiles(files, file_prefix(i)), model, own) for i, model in enumerate(models))
    notes = dict.fromkeys(note for model in loaded for note in model.notes)
    return FittedQuantiles(loaded, "quantile", expected.feature_names, notes=tuple(notes))
