"""SVG files as elements of a page."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpupipe.report.text import printable
from gpupipe.report.theme import COLORS

if TYPE_CHECKING:
    from markupsafe import Markup


def bars_svg(heights: Sequence[float]) -> Markup:
    """Return adjacent bars of these heights, stretched by the style of the page."""
    from markupsafe import Markup

    top = max(heights) or 1.0
    bars = "".join(f"M{i} 20v-{20 * height / top:.3g}h.9V20z" for i, height in enumerate(heights))
    box = f'viewBox="0 0 {len(heights)} 20" preserveAspectRatio="none"'
    return Markup(f'<svg class="mini" {box} aria-hidden="true"><path d="{bars}"/></svg>')


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return the ``<svg>`` element for a page.

    - `svg`: a whole SVG file, drawn in the colours of `gpupipe.report.theme`
    - `name`: unique on the page; the prefix of each id, so that no two plots share one
    - `label`: description for screen readers
    """
    body = svg[svg.index("<svg") :]
    view_box = re.search(r'viewBox="[^"]*"', body)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    start = f'<svg {view_box[0] if view_box else ""} role="img" aria-label="{html.escape(printable(label))}">'
    body = re.sub(r"<svg[^>]*>", lambda _: start, body, count=1)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for color_name, color in COLORS.items():
        body = body.replace(f": {color}", f": var(--{color_name})")
    return body
