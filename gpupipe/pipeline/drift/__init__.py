"""Drift of tables to predict, relative to the training rows of a model.

``training``       the reference that a run stores in its model
``detection``      a table, counted and sampled in one pass
``comparison``     the report on it
``row_counts``     counts of chunks, by period
``periods``        periods of a time column
``sample``         evenly spaced rows, which are predicted
``scores``         predictions as columns with cells
``weights``        importances of the input columns
``label_metrics``  metrics of rows with a known target
``cluster``        the same on the workers of a cluster
"""
