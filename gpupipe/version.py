"""Version of the package, importable without its public names: the one place that has it."""

__version__ = "0.2.0"
