"""Rows per second of mini-batches, compared with PyTorch's loaders: ``python -m benchmarks.batches``.

``loaders`` contains the implementations; ``idle_time`` measures the share of its time that a GPU waits between training
steps.
"""
