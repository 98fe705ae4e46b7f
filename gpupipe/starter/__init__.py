"""Starter configurations for ``gpupipe init``: commented YAML for a table, ready to run.

``starter``     `make_starter`: a configuration for a table and a target; `list_columns`: target suggestions

``columns``     the columns of a table, independent of the target: combines the next four modules, and detects dates
                and numbers in text and times in numbers, for ``schema:``
``source_table``  the table and its detected format: dialect, null marks, decimal commas
``facts``       the type, distinct values and counts of a column
``sentinels``   numbers and dates that mark missing values: -999, 9999-12-31
``useless_columns``  identifiers, constants, split markers and free text, for ``drop:``

``target_analysis``  the target, its task, leaks and helpful columns: combines the next ten modules
``target``      the target column: lookup, suggestions and positive label
``sample``      a sample of the rows as numbers, for the next eight modules
``power``       the predictive power of columns on held-out rows, alone and together
``evidence``    evidence that a column restates the target
``class_patterns``  columns whose nulls, or whose most frequent value, state the class
``outcome_dates``  dates whose distance from another date states the class
``leaks``       columns that restate the target, and columns that dominate it
``uninformative_columns``  names and row numbers without information about the target
``numbers``     integers that may be categories, and long-tailed numbers for log1p
``overlaps``    levels and classes that are bands of one quantity

``source``      the ``source:`` section
``choices``     the split, features, models and evaluate sections
``document``    YAML with a comment next to each line
"""
