"""Search for the parameters of a model (``tune:``) on held-out training rows.

``inner_folds``  folds of the training rows
``trials``       the finished trials of a search, in an Optuna study and in SQLite
``training``     training of one trial on one fold; XGBoost's bins are shared by all trials
``rounds``       early stopping: the number of rounds or epochs that the folds find
``memory``       bytes of the folds, for `gpupipe plan`
``pruning``      comparison of a running trial with finished ones
``search``       the search of one model entry
``tuned_yaml``   the best parameters as a ``models:`` section
"""
