"""Model card of an exported model, README.md."""
