"""Parity of the machines that train a model and serve it: rows that stay in the model, replayed wherever it is loaded.

``rows``          which rows: some of the run's own, and each input at its limits
``record``        what the training side makes of them, and the file that keeps it
``write``         both, into a model; its own files must give the same
``replay``        the same rows on another machine, and what it came to
``check``         how far the two are apart;  ``verification`` as a whole
"""
