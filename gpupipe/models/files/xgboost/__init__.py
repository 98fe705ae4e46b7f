"""Check of XGBoost files, and their trees for a walk without XGBoost."""
