"""Preparation of a run before its first training: tables, goal, folds, weights and candidates."""
