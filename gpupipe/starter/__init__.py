"""``gpupipe init``: a table in, a commented starter configuration out, which runs as it is.

``starter``     `make_starter`: from a path and a target to the text of the configuration
``inspection``  what was found out about the table, put together from the parts below

``written``     how the files are written: format, delimiter, header, encoding, marks for missing values
``header``      whether the first line of a file without a name for it is a header
``facts``       what a column holds: its kind, its values and how often each is there
``kinds``       dates and numbers in text, times in numbers: what goes into ``schema:``
``useless``     identifiers, constants, split markers, free text: what goes into ``drop:``
``leaks``       columns that give the target away
``categories``  integers that are names rather than sizes
``target``      the column to predict: found, suggested, and its positive label
``choices``     split, features, models and metrics
``document``    YAML with a comment beside each line
"""
