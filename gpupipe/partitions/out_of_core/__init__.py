"""Partitions kept in files on this machine, for runs whose rows exceed memory."""
