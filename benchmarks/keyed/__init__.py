"""Keyed features beside the best pandas and polars code; equal results, or exit code 1: ``python -m benchmarks.keyed``.

``event_log``          the events, from the public table online-retail
``child``              the process that computes the columns, with gpupipe or with a peer
``gpupipe_features``   gpupipe; the peers are `benchmarks.peers.keyed_pandas` and `benchmarks.peers.keyed_polars`
"""
