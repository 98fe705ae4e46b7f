"""``gpupipe bench``: measure a configuration, cold and warm, against hand-written peer scripts."""
