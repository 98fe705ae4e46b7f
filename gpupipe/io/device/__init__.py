"""The same table read by a backend's own readers, into its memory, so that the rows never are on the host.

``read``       one table, and those joined to it;  ``obstacles``: what is left to the host, and why
``csv``        CSV chunk by chunk, and what its fields mean;  ``csv_rows``: chunks of whole, regular rows
``jsonl``      what the values of JSON lines mean;  ``json_lines``: whether the lines are plain
``texts``      what texts mean: Arrow's rules;  ``numbers``: those that are written plainly
``combine``    the columns of several files to one table;  ``join``: further tables;  ``filter``: the row filter
``stream``     Parquet by row groups, where memory is short;  ``generated``: what a generator makes
"""
