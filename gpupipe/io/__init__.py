"""Files, folders and URLs to one Arrow table: what was read, from which files, and what had to be repaired.

``settings``  the ``source:`` and ``tables:`` sections; importable without any of the libraries that read
``read``      `read_arrow`: one table, from files or from a built-in generator
``join``      `read_joined`: the same, with the ``tables:`` joined to it
``in_memory`` tables given from Python in place of files
``cache``     encoded tables on disk, so that the second run of an experiment does not read again; ``cache_folder``
              what in their folder is ours, and may be removed

``files``     which files a path, glob, folder or URL means
``output_conflicts``  refuses outputs that would overwrite inputs
``streams``   opens them: ``signatures`` refuses what they are not, ``changes`` what changes
``trial``     reads isolated ones in a child process first, ``trial_reader``
``formats``   which reader reads a file: ``csv``, ``parquet``, ``jsonl``, ``orc``, ``arrow``
``columns``   every Arrow type to the few that the rest of gpupipe knows
``strings``   what counts as a missing value in text
``where``     the row filter;  ``hook``  a user's own preparation;  ``combine``  the tables of several files to one
``churn``     the built-in generator of churn data

``pieces``    a source in pieces that are read wherever that is; ``cutting`` says which, ``agreement`` what they make
``stream``    Parquet by row groups, where memory is short; ``footers`` says what they take
``on_device`` the same table read by a backend's own readers, into its memory

To add a format: a module with a ``read`` function as in ``orc``, one line in ``formats``, and its test.
"""
