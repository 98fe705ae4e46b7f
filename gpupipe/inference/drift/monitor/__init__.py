"""Monitor page of a drift report: one self-contained HTML page."""
