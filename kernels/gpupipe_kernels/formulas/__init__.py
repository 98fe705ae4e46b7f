"""Scalar formulas: each is compiled for the host and for the device, so the two cannot drift."""
