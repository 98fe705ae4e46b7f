"""The start page: one self-contained document, with a form that its script makes from ``/schema``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "page_files"


@dataclass(frozen=True)
class StartPage:
    """The page and its headers.

    The content security policy allows the style and the script of the page by their hashes, and nothing else.
    """

    content: bytes
    headers: Mapping[str, str]


@cache
def read_page() -> StartPage:
    """Return the start page. It is the same for all models."""
    style, script = ((FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    page = (FOLDER / "page.html").read_text("utf-8").replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return StartPage(page.encode(), headers)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
