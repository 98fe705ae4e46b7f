"""Pages made of files at the repository's root, with links that work from the site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpupipe_reference.links import GITHUB

PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
_LINK = re.compile(r"\[([^]]*)\]\(([^)\s:#]+)((?:#[^)\s]*)?)\)")


def repository_pages(root: Path) -> Mapping[str, str]:
    """Return the text of each page by its path in the docs folder."""
    return {page: text_for_site(root, root / file) for page, file in PAGES.items() if (root / file).exists()}


def text_for_site(root: Path, file: Path) -> str:
    """Return the text of a file with its relative links rewritten.

    Links to pages of the docs stay links to pages; other files are links to the repository.

    Raises
    ------
    ValueError
        If a link leads to a file that does not exist.
    """

    def rewrite(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        path = Path(os.path.normpath(file.parent / target))
        if not path.exists():
            raise ValueError(f"{file.name}: the link {target} leads to no file")
        name = path.relative_to(root).as_posix()
        sites = {source: page for page, source in PAGES.items()}
        if name in sites:
            return f"[{text}]({sites[name]}{anchor})"
        if name.startswith("docs/") and path.suffix == ".md":
            return f"[{text}]({name.removeprefix('docs/')}{anchor})"
        return f"[{text}]({GITHUB}/{'tree' if path.is_dir() else 'blob'}/main/{name}{anchor})"

    parts = re.split(r"(?ms)(^```.*?^```$)", file.read_text(encoding="utf-8"))
    return "".join(part if i % 2 else _LINK.sub(rewrite, part) for i, part in enumerate(parts))
