"""Training of models: preparation, candidates, and the choice between them."""
