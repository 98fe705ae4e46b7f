"""
Who will not order again, from nothing but a log of orders?
===========================================================

There is no table of customers and there are no labels: only orders with a time. gpupipe makes both. A row is a
customer at a cut-off; features see orders before it, the label counts orders after it.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gpupipe as gp

# %%
# Orders of a year, generated: every customer has a rate of ordering, and stops at some time.

rng = np.random.default_rng(7)
rows = []
for customer in range(3000):
    rate = rng.gamma(2.0, 0.02)
    stops = rng.exponential(400)
    first = rng.uniform(0, 200)
    days = first + np.cumsum(rng.exponential(1 / rate, 60))
    days = days[days < min(365, first + stops)]
    rows += [(customer, day, spend) for day, spend in zip([first, *days], rng.gamma(3, 15, len(days) + 1), strict=True)]
orders = pd.DataFrame(rows, columns=["customer", "day", "spend"])
orders["at"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(orders.pop("day"), unit="D").dt.floor("s")
print(f"{len(orders):,} orders of {orders['customer'].nunique():,} customers")
orders.sort_values("at").head(3)

# %%
# ``entities`` makes one row for each customer and cut-off. The label is true if no order follows within 60 days.
# Training uses the first two cut-offs, the test the last one: the order of time, as in real use.

folder = tempfile.TemporaryDirectory()
pipe = gp.Pipeline.from_dict(
    {
        "source": {
            "target": "churned",
            "entities": {
                "table": "orders",
                "as_of": ["2025-07-01", "2025-09-01", "2025-10-31"],
                "label": {"none": "orders", "within": "60d"},
            },
        },
        "tables": {"orders": {"path": orders, "on": "customer", "time": "at", "cardinality": "one_to_many"}},
        "split": {"time": "as_of", "cutoff": "2025-10-31"},
        "features": [
            {"rfm": {"table": "orders", "amount": "spend"}},
            {"decay": {"table": "orders", "columns": "spend", "half_life": ["14d", "60d"]}},
            {"aggregate": {"table": "orders", "gaps": ["mean", "std"]}},
            {"arithmetic": {"ratio": ["orders_recency", "orders_gap_mean"], "as": "recency_per_gap"}},
            {"impute": {"columns": "@numeric", "indicator": True}},
            {"log1p": "@numeric"},
            {"standardize": "@numeric"},
        ],
        "models": ["logistic_regression", {"hist_gradient_boosting": {"max_iter": 60, "learning_rate": 0.05}}],
        "evaluate": {"metrics": ["roc_auc", "log_loss"]},
        "report": {"enabled": False},
        "output": folder.name,
    }
)
run = pipe.run(quiet=True)
run.leaderboard[["model", "roc_auc", "log_loss"]].round(3)

# %%
# Importances are those of the columns that the features are made of. The model lives on the times of orders, compared
# with the cut-off; amounts matter less.

top = run.importances.head(6).iloc[::-1]
fig, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.barh(top["column"], top["importance"], xerr=top["std"])
axis.set(xlabel="drop of ROC AUC when shuffled")

# %%
# Scores of today need only the log of orders and a date: the model makes the rows and the features as in training.

scores = run.model.predict_entities({"orders": orders}, "2026-01-01").to_pandas()
print(f"{len(scores):,} customers")
scores.sort_values("probability_true", ascending=False).head(3)
