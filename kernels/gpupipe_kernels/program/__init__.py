"""Feature programs: the instruction set (``opcodes``), instructions with lookup tables (``program``), and the tables of
time zones in them (``time_zones``)."""
