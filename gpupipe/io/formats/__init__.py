"""Readers of file formats, one module or folder per format."""
