"""Many processes, many machines: tables in partitions that lie on workers, and the same answers as on one machine.

Dask is imported here alone, and only when a cluster is asked for.
"""
