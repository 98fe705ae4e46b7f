"""User-written kernels: reading, checking, and compilation for CPU and GPU."""
