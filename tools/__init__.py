"""Tools for people who work on gpupipe; not in the wheel."""
