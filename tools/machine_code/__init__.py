"""Machine code of the device loops: the record that a test holds, and the instructions that a launch takes."""
