"""Columns of the churn generator's customers, and settings of the features that several benchmarks make of them."""

from __future__ import annotations

NUMBERS = ("tenure", "MonthlyCharges", "TotalCharges", "DataUsageGB", "SupportCalls", "Age")
SKEWED = ("TotalCharges", "DataUsageGB")
CITY, TIME, TARGET = "City", "signup_ts", "Churn"
PERIODS = {"hour": 24, "weekday": 7}  # of the time, on circles
FOLDS, SMOOTHING = 5, 20.0  # of target rates
TEST_SHARE = 0.2
