"""Starter configurations for ``gpupipe init``: commented YAML for a table, ready to run."""
