"""File formats, one module or folder per format."""
