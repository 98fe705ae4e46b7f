"""Version of the package, importable without its public names."""

__version__ = "0.1.0"
