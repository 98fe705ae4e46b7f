"""The same table read by a backend's own readers into its memory, so that the rows are never on the host.

Modules have the names of their counterparts in `gpupipe.io`.

- ``source_reader``: one table, and those joined to it (``join``); ``filter``: the row filter
- ``obstacles``: reasons to fall back to the host
- ``csv``, ``jsonl``: text in chunks; ``text_values``: Arrow's rules for texts; ``number_texts``: plain numbers
- ``concatenation``: the columns of several files to one table
- ``parquet_stream``: Parquet by row groups, where memory is short; ``datasets``: generated tables
"""
