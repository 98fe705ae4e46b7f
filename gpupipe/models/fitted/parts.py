"""Files of a fitted model that consists of several models."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.models.fitted.base import FittedModel

OF_ALL = ("task", "feature_names", "n_classes")  # of a model's description: known from that of the whole


def save_part(model: FittedModel, folder: Path, prefix: str, *, quick: bool) -> dict[str, Any]:
    """Write the files of one model with a prefix before their names; return its description without `OF_ALL`."""
    with TemporaryDirectory(dir=folder) as temporary:
        description = model.save(temporary, quick=quick)
        names = {name: prefix + name for name in description["files"]}
        for name, prefixed in names.items():
            Path(temporary, name).replace(folder / prefixed)
    own = {key: value for key, value in description.items() if key not in OF_ALL}
    return own | {"files": list(names.values())}
