"""Leaks and sentinels that ``gpupipe init`` finds, planted in tables of packages."""
