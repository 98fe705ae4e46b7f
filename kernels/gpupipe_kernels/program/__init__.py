"""Feature programs: the instruction set (``opcodes``), and instructions with lookup tables (``program``)."""
