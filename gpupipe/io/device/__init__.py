"""Input on a device: read tables with a backend's own readers into its memory; rows are never on the host.

Modules have the names of their counterparts in `gpupipe.io`.

- ``source_reader``: one table and the tables joined to it (``join``), in chunks if memory is short; ``filter``: the row
  filter
- ``obstacles``: formats that the host reads by design, and reasons to fall back to it
"""
