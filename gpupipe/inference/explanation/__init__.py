"""Explanations: why a model predicts what it predicts, by input column.

``column_shares`` from columns of the feature matrix to input columns
``compute``      explanation of rows by a loaded model
``outputs``      names of several margins; tasks without explanations
``explanation``  the result
``tables``       as columns of an output table
"""
