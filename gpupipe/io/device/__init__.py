"""Input on a device: read tables with a backend's own readers into its memory; rows are never on the host.

Modules have the names of their counterparts in `gpupipe.io`.

- ``source_reader``: one table and the tables joined to it (``join``); ``filter``: the row filter
- ``obstacles``: reasons to fall back to the host
- ``csv``: CSV, in chunks; ``text_values``: Arrow's typing rules; ``number_texts``: number parsing
- ``concatenation``: concatenation of several files
- ``parquet_stream``: Parquet in chunks, if memory is short; ``datasets``: generated tables
"""
