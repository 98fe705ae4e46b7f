"""Runs in a folder, and runs compared with each other.

``run_list``        the table of the runs in a folder;  ``run_records`` the files of a run
``paired_metrics``  predictions of the same test rows by two runs, and the difference of their metrics
``differences``     differences of settings, columns, data and versions
``comparison``      `compare_runs`, which puts them together
"""
