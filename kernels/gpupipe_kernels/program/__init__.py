"""Feature programs: their instruction set (``opcodes``), and instructions with their lookup tables (``program``)."""
