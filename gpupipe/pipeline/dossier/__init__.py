"""Dossier of a run: material for the technical documentation of a regulated model."""
