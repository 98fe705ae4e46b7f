"""The built site: links resolve, and no page scrolls sideways on a narrow screen.

``GPUPIPE_DOCS_HTML`` is the folder of a build: after ``make docs``, run
``GPUPIPE_DOCS_HTML=build/docs pytest tests/docs``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
WIDTHS = (400,)
GENERATED = ("genindex.html", "search.html", "py-modindex.html")

# Load each page into a frame, and write the pages that are wider than the frame into the body.
HARNESS = """
<!doctype html><body><script>
const pages = %s, widths = %s, found = [];
let seen = 0;
async function measure() {
  for (const width of widths) for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 800; frame.src = page;
    await new Promise(done => { frame.onload = done; document.body.appendChild(frame); });
    const page_document = frame.contentDocument;  // the theme lets the article scroll, not the document
    const scrollers = [page_document.documentElement, ...page_document.querySelectorAll(".bd-article-container")];
    const excess = Math.max(...scrollers.map(each => each.scrollWidth - each.clientWidth));
    if (excess > 0) found.push([page, width, excess]);
    seen += 1;
    frame.remove();
  }
  document.body.textContent = "MEASURED" + JSON.stringify({seen, found}) + "END";
}
measure();
</script></body>
"""


@pytest.fixture(scope="module")
def site() -> Path:
    folder = os.environ.get("GPUPIPE_DOCS_HTML", "")
    if not folder:
        pytest.skip("GPUPIPE_DOCS_HTML is not set: there is no built site to look at")
    return Path(folder).resolve()


class PageParser(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


@cache
def parsed(path: Path) -> PageParser:
    page = PageParser()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def pages_of(site: Path) -> list[Path]:
    pages = [
        path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts and path.name not in GENERATED
    ]
    assert pages, f"{site} has no pages"
    return pages


def test_links_lead_to_a_file_and_an_anchor(site: Path) -> None:
    broken = []
    for page in pages_of(site):
        for link in parsed(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in parsed(target).anchors):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_no_page_scrolls_sideways(site: Path, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium")
    addresses = [page.as_uri() for page in pages_of(site)]
    harness = tmp_path / "harness.html"
    harness.write_text(HARNESS % (json.dumps(addresses), json.dumps(WIDTHS)))
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--timeout=180000",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=100000000", "--dump-dom", harness.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout
    measured = re.search(r"MEASURED(.*)END", shown)
    assert measured is not None, shown[-2000:]
    result = json.loads(measured[1])
    assert result == {"seen": len(addresses) * len(WIDTHS), "found": []}


def test_source_links_lead_to_the_line(site: Path) -> None:
    """Links of the API pages name a file of this repository and the lines of the object."""
    links = {link for page in (site / "reference" / "api").glob("*.html") for link in parsed(page).links}
    sources = {link.partition("/blob/main/")[2] for link in links if "/blob/main/" in link and "#L" in link}
    assert len(sources) > 30
    for source in sources:
        name, _, lines = source.partition("#L")
        first = (ROOT / name).read_text(encoding="utf-8").splitlines()[int(lines.partition("-")[0]) - 1]
        assert re.match(r"\s*(@|def |class |async def )", first), source
