"""Atomic writes of files and directories."""
