"""Parity between training and serving: rows recorded in the model, and replayed wherever it is loaded.

``rows``          selection of the rows: rows of the run, and each input at its limits
``record``        outputs of the training side for these rows
``files``         the record as files of a model
``arrays``        its arrays, read without Arrow
``replay``        writing the record into a model, and replaying it on another machine
``check``         differences by column and by row
``verification``  the result as a whole
"""
