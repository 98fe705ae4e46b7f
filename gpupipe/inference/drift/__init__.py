"""Drift of tables and scores relative to the training rows of a model.

``reference``         bins, levels and counts of the training rows
``files``             the reference in a model directory
``counted_column``    a column of the reference and its place in the schema of the model
``cell_counter``      counts of tables in the same cells, which merge over chunks and workers
``row_cell_counter``  counts of single rows in the same cells, without Arrow
``comparison``        statistics and significance of two sets of counts
``probabilities``     tails of distributions
``verdict``           severity of each column, and the verdict
``report``            what `gpupipe.Model.drift` returns
"""
