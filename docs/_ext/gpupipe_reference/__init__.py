"""Sphinx extension: the reference pages, generated from the code before the build reads its sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config as SphinxConfig


def reference_pages() -> dict[str, str]:
    """Return the text of each generated page by its path in ``docs/reference``.

    Raises
    ------
    ValueError
        If a part of the code lacks what its page needs: an example, a description, a group.
    """
    from gpupipe_reference.commands import command_pages
    from gpupipe_reference.configuration import configuration_pages
    from gpupipe_reference.links import code_links
    from gpupipe_reference.metrics import metric_pages
    from gpupipe_reference.models import model_pages
    from gpupipe_reference.ops import op_pages
    from gpupipe_reference.python_api import api_pages
    from gpupipe_reference.rules import rule_pages
    from gpupipe_reference.splits import split_pages

    links = code_links()
    return {
        **configuration_pages(links),
        **op_pages(links),
        **model_pages(links),
        **metric_pages(links),
        **split_pages(links),
        **rule_pages(links),
        **command_pages(links),
        **api_pages(links),
    }


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages below `folder`: those that changed; generated pages that are no longer made are removed."""
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for kind in {name.partition("/")[0] for name in pages if "/" in name}:
        for path in (folder / kind).glob("*.md"):
            if f"{kind}/{path.name}" not in pages:
                path.unlink()


def generate(app: Sphinx, config: SphinxConfig) -> None:
    """Write all generated pages into the source folder."""
    from sphinx.errors import ConfigError

    from gpupipe_reference.repository import repository_pages

    docs = Path(app.srcdir)
    try:
        pages = reference_pages()
        own = repository_pages(docs.parent)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    write_pages(docs / "reference", pages)
    write_pages(docs, own)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("config-inited", generate)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
