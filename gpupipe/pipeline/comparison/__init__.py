"""Runs in a folder, and runs compared with each other."""
