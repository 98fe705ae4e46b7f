"""Keyed engine in CUDA kernels, for arrays in device memory."""
