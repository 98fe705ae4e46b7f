"""Kernels that users write: read, checked, compiled for both processors."""
