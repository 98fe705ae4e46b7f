"""Choice of the champion among the candidates of a run."""
