"""Shapley values of tree ensembles, exact, for rows on the host.

The value of a set of columns is the expected prediction of a tree that follows the row at splits on these columns, and
both children, weighted by their training rows, at all others: the path-dependent values of Lundberg, Erion and Lee,
"Consistent individualized feature attribution for tree ensembles", arXiv 1802.03888 (2018).
"""
