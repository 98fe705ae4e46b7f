"""The interpreter as a CUDA kernel, and CUDA kernels that are generated for one program (``specialisation``)."""
