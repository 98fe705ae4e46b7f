"""Input: read files, folders and URLs into one Arrow table, with notes about repairs.

Sources:

- ``settings``, ``csv_settings``, ``event_settings``: the ``source:`` and ``tables:`` sections, importable without a
  reader library
- ``source_reader``: `read_arrow`, one table from files or a generator; ``join``: `read_joined`, with ``tables:``
- ``entities``, ``row_steps``, ``compute_formula``: event tables; ``hook``: the prepare hook
- ``in_memory``: tables passed from Python instead of files; ``raw_columns``: columns exactly as stored
- ``cache``, ``table_files``: on-disk cache of encoded tables

Files:

- ``files``: file discovery for paths, globs, folders and URLs; ``hive_partitions``: columns from folder names
- ``file_streams``: opens files; ``signatures``: checks their format; ``file_changes``: detects modification
- ``isolation``, ``isolated_reader``: read untrusted files in a child process first
- ``output_conflicts``: rejects outputs that would overwrite inputs

Columns and rows:

- ``column_filter``: the selected columns; ``filter_expression`` and ``filter``: the row filter of ``where:``
- ``arrow_types``, ``plain_tables``, ``missing_values``: conversion of Arrow types to the plain types of gpupipe
- ``concatenation``: a common schema for several files; ``notes``: repairs and skipped rows

Folders: ``formats`` (one reader per file format), ``chunks`` (reading in chunks, on workers or if memory is short),
``device`` (reading with a backend's own readers, into device memory).

To add a format, write a module with a ``read`` function like ``formats/orc.py``, register it in
``io/file_formats.py`` and add a test.
"""
