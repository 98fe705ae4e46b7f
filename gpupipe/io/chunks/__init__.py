"""Chunked reading: sources are split into row groups, stripes or line ranges."""
