"""``python -m gpupipe.bench.keyed``: keyed features beside the best pandas and polars; equal results, or exit code 1.

``events`` is the log, ``contest`` one contestant's process; ``ours``, ``with_pandas`` and ``with_polars`` compute.
"""
