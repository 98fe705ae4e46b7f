"""Features computed by several processes, with a memory limit or killed workers: ``python -m benchmarks.cluster``.

``workload``           the features, and a summary of a matrix for comparisons
``child``              the process that computes them once, with gpupipe or with the peer
``gpupipe_features``   gpupipe, in one process and on workers; the peer is `benchmarks.peers.features_dask`
``kills``              runs with a killed worker
"""
