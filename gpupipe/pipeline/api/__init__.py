"""Python interface of runs."""
