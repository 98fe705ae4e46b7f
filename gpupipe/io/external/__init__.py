"""Tables of databases and lakehouses: SQL queries, Delta Lake and Apache Iceberg.

Their rows are copied, in bounded memory, to a temporary Parquet file when the inputs of a run are listed. From then on
the copy is an input file like any other: chunks, passes over partitions, the GPU and workers on this machine read it.
"""
