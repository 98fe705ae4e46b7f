"""History ops in SQL.

- `tables`: what they read in a database
- `event_rows`: event tables after their filters and groups
- `seen_events`: the events that each row sees
- `figures`: each op
- `rows`: rows with the derived columns
- `comparison`: with the model, on generated events
"""
