"""Keyed features compared with the best pandas and polars code: ``python -m benchmarks.keyed``.

``event_log``          events from the public table online-retail
``child``              process that computes the columns with gpupipe or a peer
``gpupipe_features``   gpupipe; the peers are `benchmarks.peers.keyed_pandas` and `benchmarks.peers.keyed_polars`
"""
