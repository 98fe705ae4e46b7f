"""Dask clusters: connection, workers, health, and training by all workers together.

Dask is imported in this package only, and only when a cluster is requested.
"""
