"""Reader of CSV files."""
