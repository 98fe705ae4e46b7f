"""Partitioned tables: rows in partitions on workers, with the results of one machine. No Dask here."""

# Importing these registers what `write_matrix`, `make_statistics`, `find_violations`, `fit_matrix`, `predict_matrix`
# and `gather_rows` do with partitioned tables and matrices.
from gpupipe.partitions import matrix, rules, training  # noqa: F401
from gpupipe.partitions.statistics import training as statistics  # noqa: F401
