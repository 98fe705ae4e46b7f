"""``gpupipe init``: a table in, a commented starter configuration out, which runs as it is.

``starter``     `make_starter`: a configuration for a table and a target; `list_columns`: candidates for the target

``columns``     the columns of a table, whatever is predicted: combines the next three, and finds dates and numbers in
                text and times in numbers, which go into ``schema:``
``source_table``  the table and its detected format: dialect, marks for missing values, decimal commas
``facts``       what a column holds: its values and their counts
``useless_columns``  identifiers, constants, split markers, free text: what goes into ``drop:``

``target_analysis``  the target and its task, leaks and helpful columns: combines the next seven
``target``      the column to predict: found, suggested, and its positive label
``sample``      some rows as numbers, for the next five
``power``       what columns predict of held-out rows, alone and together
``leaks``       columns that restate the target, and columns that dominate it
``uninformative_columns``  names and numbers that say nothing of the target
``numbers``     integers that may be names rather than sizes, and long tails to take the logarithm of
``overlaps``    levels and classes that are bands of one quantity

``source``      the ``source:`` section
``choices``     split, features, models and metrics
``document``    YAML with a comment beside each line
"""
