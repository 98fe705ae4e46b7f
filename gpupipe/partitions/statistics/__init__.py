"""Training statistics of partitioned tables, equal to those of one machine to the last bit."""
