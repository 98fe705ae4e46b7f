"""The encoded table: its columns (`schema`), its memory (`blocks`), and its construction.

- ``encode``: Arrow table to encoded table, inferring the schema or enforcing a frozen one
- ``encode_chunks``: the same for a table read in chunks; ``column_summary``: its first pass
- ``schema``, ``blocks``: columns and memory; ``holdout``: masks of held-out rows
- ``string_columns``, ``numeric_columns``, ``time_columns``: encoding of each kind; ``hash_buckets``: codes of hashed
  columns
- ``list_columns``: columns of lists in one layout; ``list_cells``: the items of single lists
- ``time_texts``: the meaning of a text or number in a time format; ``time_formats``: inference of formats, and advice;
  ``temporal_objects``: times of Python and NumPy
- ``cell_encoders``, ``row_encoder``: the same encoding of single cells and rows, without Arrow; ``plain_values``:
  values of NumPy and pandas as those of Python's basic types
- ``number_texts``, ``level_text``, ``exact_texts``, ``exact_values``: the meaning of numbers, levels and identifiers
- ``cell_checks``: cells of another kind than their column; ``row_numbers``: of cells in messages
- ``frames``: conversion of data frames to Arrow tables; ``keys``: conversion of join keys to integer codes;
  ``key_matches``: the share of keys that match
- ``arrange``: row selections, and the same rows under another schema
- ``device``: data frame in device memory to the same encoded table
"""
