"""The feature matrix as tensors of other libraries, without a copy, and mini-batches of it.

Nothing is imported here: PyTorch, JAX and TensorFlow are loaded by whoever asks for one of their tensors.
"""
