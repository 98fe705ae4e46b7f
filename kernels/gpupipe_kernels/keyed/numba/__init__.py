"""The keyed engine in compiled loops on the threads of the host."""
