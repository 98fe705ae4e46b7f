"""Update of a model with new rows: a challenger, compared with the model in use on rows that neither has seen.

``update``             `update_model`: train the challenger as a run, compare, decide, and record the generation
``training_settings``  training.json, the settings of a model's training, and the configuration of the challenger
``learned_rows``       the input columns that new rows change, and the reference of all rows that a model has learned
"""
