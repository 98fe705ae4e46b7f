"""Developer tools; not part of the wheel."""
