"""The interpreter as a CUDA kernel, and CUDA kernels generated for one program (``specialisation``)."""
