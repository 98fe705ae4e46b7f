"""Machine code of the device loops: the record that a test compares with, and instruction counts."""
