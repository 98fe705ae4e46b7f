"""Columns of the generated customers, and settings of the features that several benchmarks compute from them."""

from __future__ import annotations

NUMBERS = ("tenure", "MonthlyCharges", "TotalCharges", "DataUsageGB", "SupportCalls", "Age")
SKEWED = ("TotalCharges", "DataUsageGB")
CITY = "City"
TIME = "signup_ts"
TARGET = "Churn"
PERIODS = {"hour": 24, "weekday": 7}  # of the time column, for cyclic features
FOLDS, SMOOTHING = 5, 20.0  # for target rates
TEST_SHARE = 0.2
