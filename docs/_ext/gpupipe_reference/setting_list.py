"""Definition lists of settings, each with an anchor to link to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupipe_reference.markdown import code, definition, inline
from gpupipe_reference.schema_text import SettingText


def setting_list(
    found: Iterable[SettingText], prefix: str, links: Mapping[str, str], notes: Mapping[str, str] | None = None
) -> str:
    """Return settings as a definition list.

    Parameters
    ----------
    found : iterable of SettingText
    prefix : str
        Put before the names of the settings to make their anchors.
    links : mapping of str to str
        Code in descriptions to the label that it links to.
    notes : mapping of str to str, optional
        Setting to a further paragraph, as Markdown.
    """
    return "\n".join(_item(setting, prefix, links, (notes or {}).get(setting.name, "")) for setting in found)


def _item(setting: SettingText, prefix: str, links: Mapping[str, str], note: str) -> str:
    facts = [setting.type]
    if setting.required:
        facts.append("**required**")
    else:
        facts.append(f"default {setting.default}" if setting.default else "optional")
    term = f"[{code(setting.name)}]{{#{anchor(prefix, setting.name)}}} — {', '.join(filter(None, facts))}"
    text = inline(setting.description, links)
    return definition(term, "\n\n".join(filter(None, [text, note])))


def anchor(prefix: str, name: str) -> str:
    """Return the anchor of a setting."""
    return f"{prefix}-{name}".lower().replace("_", "-")
