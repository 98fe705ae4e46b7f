"""Reader of CSV files on a device, with the typing rules of the host."""
