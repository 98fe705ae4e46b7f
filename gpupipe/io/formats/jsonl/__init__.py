"""Reader of JSON lines files."""
