"""Records that a run leaves: report, model, card, reference of drift."""
