"""Estimates of a run on known GPUs, for `gpupipe gpus`."""
