"""Encoding of data frames in device memory; module names match those of `gpupipe.table`."""
