"""Input: read files, folders and URLs into one Arrow table, with notes about repairs.

Sources:

- ``settings``, ``csv_settings``, ``event_settings``: the ``source:`` and ``tables:`` sections, importable without a
  reader library
- ``source_reader``: `read_arrow`, one table from files or a generator; ``join``: `read_joined`, with ``tables:``
- ``entities``, ``row_steps``, ``compute_formula``: event tables; ``hook``: the prepare hook
- ``in_memory``: tables passed from Python instead of files; ``raw_columns``: columns exactly as stored
- ``origin_settings``: where a table comes from; ``external``: databases, Delta Lake and Iceberg; ``frame_field`` and
  ``dask_table``: frames
- ``cache``, ``table_files``: on-disk cache of encoded tables

Files:

- ``files``: file discovery for paths, globs, folders and URLs; ``hive_partitions``: columns from folder names
- ``input_files``: the files of a configuration, listed once; ``table_folder``: keeps them inside the folder of a table
- ``file_streams``: opens files and checks their format; ``file_changes``: detects modification;
  ``zip_members``, ``hashing_stream``; ``network_errors``: failures of servers in words; ``table_copy``: copies of
  remote tables
- ``isolation``, ``isolated_reader``: read untrusted files in a child process first
- ``output_conflicts``: rejects outputs that would overwrite inputs

Columns and rows:

- ``column_settings``: the ``schema:`` of a table; ``column_filter``: the selected columns; ``filter_expression`` and
  ``filter``: the row filter of ``where:``
- ``arrow_types``, ``plain_tables``, ``missing_values``: conversion of Arrow types to the plain types of gpupipe
- ``row_sample``: samples and row counts; ``stray_values``: columns that are text because of a few values
- ``concatenation``: a common schema for several files; ``notes``: repairs and skipped rows

Folders: ``formats`` (one reader per file format, registered in ``file_formats``), ``chunks`` (reading in chunks, on
workers or if memory is short), ``device`` (reading with a backend's own readers, into device memory).

To add a format, write a module with a ``read`` function like ``formats/orc.py``, register it in ``io/file_formats.py``
and add a test.
"""
