"""A model as one SQL query: dialects, layers of named values, inputs, instructions, estimators and engines."""
