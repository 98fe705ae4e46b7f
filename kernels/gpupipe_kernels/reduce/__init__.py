"""Reductions over the rows of encoded columns: the statistics that a fit learns."""
