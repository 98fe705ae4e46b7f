"""The interpreter as a CUDA kernel."""
