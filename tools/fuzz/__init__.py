"""Damaged inputs against the promises of the command line: ``python -m tools.fuzz``.

``command``       the command line; ``campaign``: draw the cases of a kind, run them and keep those that fail
``kinds``         what a kind of input is: sound files, and the commands that read them
``damage``        kinds whose bytes are damaged: tables, configurations, models, runs and caches
``structure``     kinds of which the structure is edited: the model files of every exportable model
``corpus``        files that once broke a promise; ``corpus_cases`` reads them
``forked_child``  a child process with limits of time and memory; ``oracle``: what it must not do
``second_reader`` reads tables with other libraries, to compare values
"""
