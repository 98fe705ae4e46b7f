"""Portable model directories: named parts with hashes, without pickle. The content of parts is up to the caller."""

from __future__ import annotations

from gpupipe.artifact.reader import ArtifactReader, PathLike, trusted_keys
from gpupipe.artifact.writer import ArtifactWriter

__all__ = ["ArtifactReader", "ArtifactWriter", "PathLike", "trusted_keys"]
