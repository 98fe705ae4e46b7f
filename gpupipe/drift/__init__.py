"""Drift of tables and scores relative to the training rows of a model.

``reference``     bins, levels and counts of the training rows
``files``         the reference in a model directory
``cell_counter``  counts of other rows in the same cells, which merge over chunks and workers
``comparison``    statistics and significance of two sets of counts
``verdict``       severity of each column, and the verdict
``report``        what `gpupipe.Model.drift` returns
"""
