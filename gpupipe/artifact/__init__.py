"""The portable model directory: named parts, each hashed, none pickle. What the parts mean is not known here."""

from __future__ import annotations

from gpupipe.artifact.reader import ArtifactReader
from gpupipe.artifact.writer import ArtifactWriter

__all__ = ["ArtifactReader", "ArtifactWriter"]
