"""Features by several processes, under a memory limit, and with killed workers: ``python -m benchmarks.cluster``.

``workload``           the features, and a summary that tells one matrix from another
``child``              the process that makes them once, with gpupipe or with the peer
``gpupipe_features``   gpupipe, in one process and on workers; the peer is `benchmarks.peers.features_dask`
``kills``              runs of which a worker is killed
"""
