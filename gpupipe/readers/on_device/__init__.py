"""The same table read by a backend's own readers, into its memory, so that the rows never are on the host.

``read``       one table, and those joined to it;  ``obstacles``: what is left to the host, and why
``csv``        what the fields of CSV mean;  ``csv_rows``: whether its rows are regular;  ``texts``: Arrow's rules
``combine``    the columns of several files to one table;  ``join``: further tables;  ``filter``: the row filter
``stream``     Parquet by row groups, where memory is short
"""
