"""Plug-ins for gpupipe: a feature op, a model, a reader and a metric."""
