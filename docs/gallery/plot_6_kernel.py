"""
What if no op computes my feature?
==================================

Write one row of it as a Python function of numbers. ``gp.kernel`` compiles the function for the CPU and, where there
is one, for the GPU; the model keeps its text, so the file is not needed to predict.
"""

import math
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gpupipe as gp

# %%
# The question: will a loan default? The instalment of an annuity loan, as a share of the monthly income, is a formula
# that no op has, and says more than the columns that it is computed from.


@gp.kernel(out="float32", nulls="propagate")
def instalment_share(amount, rate, months, income):
    monthly = rate / 1200.0
    if monthly == 0.0:
        return amount / months / income
    return amount * monthly / (1.0 - math.pow(1.0 + monthly, -months)) / income


print(instalment_share(10_000.0, 6.0, 36.0, 2500.0))

# %%
# Loans, generated. The odds of default grow with the share of the income that the instalment takes.

rng = np.random.default_rng(7)
n = 20_000
loans = pd.DataFrame(
    {
        "amount": rng.gamma(2.0, 8000.0, n).round(-2) + 500,
        "rate": rng.uniform(2, 14, n).round(1),
        "months": rng.choice([12, 24, 36, 60, 84], n),
        "income": rng.gamma(6.0, 500.0, n) + 800,
    }
)
share = instalment_share(*(loans[name].to_numpy() for name in ("amount", "rate", "months", "income")))
loans["defaulted"] = rng.random(n) < 1 / (1 + np.exp(-(3.0 * np.log(share / 0.35))))
loans.loc[rng.random(n) < 0.05, "income"] = np.nan  # null in, null out: `nulls="propagate"`

# %%

folder = tempfile.TemporaryDirectory()
kernel = {"kernel": {"use": instalment_share, "inputs": ["amount", "rate", "months", "income"], "as": "share"}}
scores = {}
for name, features in {"columns": [], "columns and kernel": [kernel]}.items():
    pipe = gp.Pipeline(
        loans,
        target="defaulted",
        features=[*features, {"impute": {"columns": "@numeric", "indicator": True}}, {"standardize": "@numeric"}],
        models=["logistic_regression", {"hist_gradient_boosting": {"max_iter": 60}}],
        evaluate={"metrics": ["roc_auc", "log_loss"]},
        report={"enabled": False},
        output=folder.name,
    )
    run = pipe.run(quiet=True)
    scores[name] = run.leaderboard.set_index("model")["roc_auc"]
table = pd.DataFrame(scores)
table.round(3)

# %%
# With the kernel, the linear model catches up with the trees, which approximate the formula by splits.

fig, axis = plt.subplots(figsize=(7, 2.5), layout="constrained")
for features in table:
    axis.plot(table[features], table.index, "o", markersize=9, label=features)
axis.set(xlabel="ROC AUC on test rows", ylim=(-0.5, 1.5))
axis.legend(loc="center left")

# %%
# A kernel is code, so a model that has one loads only with ``allow_code=True``. Its text can do arithmetic and nothing
# else; that is checked again when the model is loaded.

model = gp.load_model(run.path, allow_code=True)
print(model.predict_proba({"amount": 20_000, "rate": 6.5, "months": 48, "income": 2400}).round(3))
folder.cleanup()
