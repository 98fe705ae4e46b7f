"""Fuzzer of the command line with damaged inputs: ``python -m tools.fuzz``.

``command``       the command line; ``campaign``: draw the cases of a kind, run them and save those that fail
``kinds``         a kind of input: valid files, and the commands that read them
``damage``        kinds whose bytes are damaged: tables, configurations, models, runs and caches
``structure``     kinds whose structure is edited: the model files of every exportable model
``corpus``        regression cases, read by ``corpus_cases``
``forked_child``  a child process with limits of time and memory; ``oracle``: checks of its outcome
``second_reader`` reads tables with other libraries to compare values
"""
