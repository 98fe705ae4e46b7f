"""Expressions, their builder, and the compiler that turns them into a program."""
