"""The run directory: complete or absent, and replaced only by runs."""
