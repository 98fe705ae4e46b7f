"""Files, folders and URLs to one Arrow table: its rows, the files that were read, and notes on what was repaired.

Sources:

- ``settings``, ``event_settings``: the ``source:`` and ``tables:`` sections, importable without any reader library
- ``source_reader``: `read_arrow`, one table from files or from a generator; ``join``: `read_joined`, with ``tables:``
- ``entities``, ``row_steps``, ``compute_formula``: event tables; ``hook``: a user's own function
- ``in_memory``: tables given from Python in place of files; ``raw_columns``: columns exactly as stored
- ``cache``, ``cache_folder``, ``table_files``: encoded tables on disk, so that a second run does not read again

Files:

- ``files``: the files that a path, glob, folder or URL means; ``hive_partitions``: columns from folder names
- ``file_streams``: opens them; ``signatures`` checks their format, ``file_changes`` that they do not change
- ``isolation``, ``isolated_reader``: reads untrusted files in a child process first
- ``output_conflicts``: refuses outputs that would overwrite inputs

Columns and rows:

- ``column_filter``: the selected columns; ``filter_expression`` and ``filter``: the row filter of ``where:``
- ``arrow_types``, ``plain_tables``, ``missing_values``: every Arrow type to the few that the rest of gpupipe knows
- ``concatenation``: the tables of several files to one; ``notes``: what a reader repaired or skipped

Folders: ``formats`` (one reader per file format), ``chunks`` (sources read in chunks, on workers or where memory is
short), ``device`` (the same table read by a backend's own readers, into its memory).

To add a format: a module with a ``read`` function as in ``formats/orc.py``, one line in ``formats/registry.py``, and
its test.
"""
