"""Prediction of single rows: a model compiled once, from raw Python values to the answer.

``scorer``         `Scorer`, as returned by `gpupipe.Model.scorer` and `gpupipe.load_scorer`
``load``           scorers of model directories, without Arrow or pandas
``row_arguments``  one row, or a sequence of rows
``warm_up``        compiled code and tables in the caches, ahead of the first row
"""
