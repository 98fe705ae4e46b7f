"""``python -m gpupipe.bench.cluster``: features by several processes, under a limit of memory, and with workers killed.

``contest`` is one contestant's process: ``ours`` and ``with_dask`` compute what ``work`` names. ``kills`` has workers
killed.
"""
