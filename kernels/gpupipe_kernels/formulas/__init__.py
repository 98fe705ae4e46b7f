"""Scalar formulas, each compiled for both host and device so that results cannot diverge."""
