"""JSON lines files."""
