"""Zero-copy hand-over of feature matrices to PyTorch, JAX and TensorFlow, and shuffled mini-batches.

Importing this package imports none of these libraries: each is loaded when the first of its tensors is made.
"""
