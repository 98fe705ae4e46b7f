"""Templates of the HTML pages: one frame, style and set of filters for all of them; SVG files in pages."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe import units
from gpupipe.names import count_noun
from gpupipe.report import text
from gpupipe.report.text import printable
from gpupipe.report.theme import COLORS, DARK, css_variables

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


@cache  # compiling the templates takes longer than filling them
def html_environment(*folders: Path) -> jinja2.Environment:
    """Return an environment that escapes every value, with the templates of `folders` and of the report.

    A page extends ``frame.html``, which needs a `title`.
    """
    import jinja2
    from markupsafe import Markup

    from gpupipe.report.template_cache import TemplateCache

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        bytecode_cache=TemplateCache(),
    )
    filters = (
        text.number,
        text.signed,
        text.spread,
        text.percent,
        text.share,
        text.at_scale,
        text.metric_title,
        text.task_title,
        text.threshold_rule_title,
        text.direction,
        text.params_text,
        units.format_duration,
        units.format_latency,
        units.format_size,
        units.format_rate,
        bars_svg,
        count_noun,
    )
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {
        "style": Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        "colors": css_variables(COLORS),
        "dark_colors": css_variables(DARK),
    }
    return environment


def _finalize(value: Any) -> Any:
    """Return text of the data with control characters as escapes; markup and numbers are returned unchanged."""
    return text.printable(value, keep="\n\t") if type(value) is str else value


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
