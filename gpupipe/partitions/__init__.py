"""Partitioned tables: rows in partitions on workers, with the results of one machine. No Dask here."""
