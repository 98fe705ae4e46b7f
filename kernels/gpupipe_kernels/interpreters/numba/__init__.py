"""Interpreter compiled for the host: one loop (``interpreter``) over vectorised steps (``steps``)."""
