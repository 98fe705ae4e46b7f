"""Models with a lineage."""

from __future__ import annotations

from pathlib import Path

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.manifest import OWN_KEYS
from gpupipe.model_parts.lineage import Generation, write_lineage


def with_lineage(source: Path, target: Path, *generations: Generation) -> Path:
    """Write a model again, with a lineage."""
    reader, writer = ArtifactReader(source), ArtifactWriter(target)
    for name in reader.names():
        writer.file(name).write_bytes(reader.read(name))
    write_lineage(writer, generations)
    content = {key: value for key, value in reader.manifest.items() if key not in OWN_KEYS}
    writer.finish(content, reader.manifest["libraries"])
    return target
