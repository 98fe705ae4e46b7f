"""Lineage of a model: the generations that it was updated from, and the verdict on each. An optional part.

The list is oldest first; the last entry describes the model itself. A model that no update has written has no lineage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.part_shapes import COUNT

NAME = "lineage.json"
SHA256 = re.compile(r"[0-9a-f]{64}")

Origin = Literal["trained", "continued", "refitted"]
Verdict = Literal["promote", "keep", "refuse"]

_GENERATION = {"manifest_sha256": str, "created": str, "rows": COUNT, "period": ([str], None)}
_GENERATION |= {
    "how": {*get_args(Origin)},
    "verdict": ({*get_args(Verdict)}, None),
    "reasons": [str],
    "drifted?": [str],
}


@dataclass(frozen=True)
class Generation:
    """A model in the lineage of another one, or the model itself. Times are in ISO 8601."""

    manifest_sha256: str  # the entry of that name in its manifest: 64 hexadecimal digits
    created: str  # when it was trained
    rows: int  # number of rows that it has learned from, and the generation before has not
    period: tuple[str, str] | None  # first and last time of these rows; None if they have none
    how: Origin  # by a run, continued from the generation before, or fitted again with its settings
    verdict: Verdict | None  # on it as a challenger of the generation before; None if they were not compared
    reasons: tuple[str, ...]  # of the verdict, one sentence each
    drifted: tuple[str, ...] = ()  # input columns that have drifted since the features were learned, if it continued

    def to_json(self) -> dict[str, Any]:
        """Return the generation as JSON values."""
        lists = {"period": self.period and [*self.period], "reasons": [*self.reasons], "drifted": [*self.drifted]}
        return {**asdict(self), **lists}


def write_lineage(writer: ArtifactWriter, generations: Iterable[Generation]) -> None:
    """Write the generations of a model, oldest first, as a part of it.

    The last one describes the model itself. Its hash is not written, because the manifest that has it also has the hash
    of this part. Raise ValueError if `read_lineage` would refuse the values.
    """
    found = [generation.to_json() for generation in generations]
    if found:
        found[-1]["manifest_sha256"] = ""
    _generations(found)
    writer.json(NAME, found)


def read_lineage(model: ArtifactReader | str | os.PathLike[str]) -> tuple[Generation, ...]:
    """Return the generations of a model, oldest first; the last one is the model itself, with its hash.

    `model` is an open model directory, or a path as `gpupipe.load_model` takes it, whose files are all checked. The
    result is empty if the model has no lineage. Raise ArtifactError if the path has no model, or a file is corrupt.
    """
    reader = model if isinstance(model, ArtifactReader) else ArtifactReader(model_folder(Path(model)))
    if NAME not in reader.names():
        return ()
    with refuse_failures(f"{NAME} is invalid", str(reader.path(NAME))):
        *earlier, own = _generations(reader.json(NAME))
        return *earlier, replace(own, manifest_sha256=reader.manifest["manifest_sha256"])


def _generations(values: Any) -> list[Generation]:
    """Return the generations described by JSON values; raise ValueError if the values are invalid."""
    check_shape(values, [_GENERATION])
    if not values:
        raise ValueError("expected the model itself as the last generation; found none")
    for i, value in enumerate(values):
        is_own = i == len(values) - 1
        if not (value["manifest_sha256"] == "" if is_own else SHA256.fullmatch(value["manifest_sha256"])):
            expected = "no hash of the model itself" if is_own else "64 hexadecimal digits"
            raise ValueError(f"[{i}].manifest_sha256: expected {expected}; found {value['manifest_sha256']!r:.80}")
        if value["period"] is not None and len(value["period"]) != 2:
            raise ValueError(f"[{i}].period: expected 2 times; found {len(value['period'])}")
        for time in (value["created"], *(value["period"] or ())):
            datetime.fromisoformat(time)  # raises ValueError with the text
    found = []
    for value in values:
        lists = {key: tuple(value[key]) for key in ("period", "reasons", "drifted") if value.get(key)}
        found.append(Generation(**{**value, "reasons": (), "drifted": (), **lists}))
    return found
