"""``python -m gpupipe.bench.batches``: rows per second of mini-batches, beside PyTorch's own loaders.

``loaders`` has the contestants, ``idle`` what share of its time a GPU waits between them.
"""
