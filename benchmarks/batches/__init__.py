"""Rows per second of mini-batches beside PyTorch's own loaders: ``python -m benchmarks.batches``.

``loaders`` has the implementations, ``idle_time`` the share of its time that a GPU waits between training steps.
"""
