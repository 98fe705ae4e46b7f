"""Encoded tables of frames in device memory; module names match those of `gpupipe.table`."""
