"""Make a stand-alone SVG fit for an HTML page: no prologue, no references, colours that follow the page."""

from __future__ import annotations

import re

from gpupipe.report.theme import COLORS


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return the ``<svg>`` element for a page.

    Parameters
    ----------
    svg : str
        A whole SVG file, drawn in the colours of `gpupipe.report.theme`.
    name : str
        Unique on the page; put before each id, so that two plots do not share one.
    label : str
        What the plot shows, for screen readers; must need no escaping.
    """
    body = svg[svg.index("<svg") :]
    view_box = re.search(r'viewBox="[^"]*"', body)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(
        r"<svg[^>]*>", f'<svg {view_box[0] if view_box else ""} role="img" aria-label="{label}">', body, count=1
    )
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for color_name, color in COLORS.items():
        body = body.replace(f": {color}", f": var(--{color_name})")
    return body
