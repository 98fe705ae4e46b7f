"""Parity of the machines that train a model and serve it: rows that stay in the model, replayed wherever it is loaded.

``rows``          which rows: some of the run's own, and each input at its limits
``record``        what the training side makes of them, and the file that keeps it
``replay``        both, written into a model, and the same rows on another machine
``check``         how far the two are apart;  ``verification`` as a whole
"""
