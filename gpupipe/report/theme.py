"""Colours of the page and its plots, in a light and a dark theme.

The scale from low to high values runs from blue to orange, which all common kinds of colour blindness tell apart.

An SVG file is drawn in the light colours. When it is inlined, each colour becomes its CSS variable, so that the plot
follows the theme of the page.
"""

from __future__ import annotations

COLORS = {
    "page": "#f6f7f9",
    "card": "#fefefe",
    "ink": "#16191f",
    "muted": "#5f6877",
    "faint": "#a3abb8",
    "line": "#e6e9ee",
    "accent": "#2f63d8",
    "gpu": "#5c9a14",
    "warn": "#b25e09",
    "warn-back": "#fdf4e3",
    "series-2": "#d9622b",
    "series-3": "#1e9b83",
    "series-4": "#9a4fc4",
    "series-5": "#c43d63",
    "series-6": "#7c7a1f",
    "scale-1": "#1d4fd0",
    "scale-2": "#485dc6",
    "scale-3": "#6a67bc",
    "scale-4": "#8a6fb0",
    "scale-5": "#a7748c",
    "scale-6": "#c37463",
    "scale-7": "#e0701a",
}

DARK = {
    "page": "#101318",
    "card": "#191d24",
    "ink": "#eceff4",
    "muted": "#a0a9b8",
    "faint": "#667080",
    "line": "#2a303a",
    "accent": "#7ba4ff",
    "gpu": "#93cf4b",
    "warn": "#f0b35a",
    "warn-back": "#2c2415",
    "series-2": "#ff9563",
    "series-3": "#52cdb4",
    "series-4": "#c48cec",
    "series-5": "#f07f9e",
    "series-6": "#c5c259",
    "scale-1": "#6f9cff",
    "scale-2": "#8a9ced",
    "scale-3": "#a19cdb",
    "scale-4": "#b79ac9",
    "scale-5": "#cf9ea8",
    "scale-6": "#e7a081",
    "scale-7": "#ffa04d",
}

SERIES = [COLORS["accent"], *(color for name, color in COLORS.items() if name.startswith("series-"))]


def css_variables(colors: dict[str, str]) -> str:
    """Return the CSS declarations of these colours."""
    return " ".join(f"--{name}: {color};" for name, color in colors.items())
