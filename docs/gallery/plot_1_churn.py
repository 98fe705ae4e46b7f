"""
Which customers will leave?
===========================

A table of customers, two models, and a decision: whom to call, if the team can call 500 of them. The configuration is
the one that ``gpupipe run configs/churn.yaml`` runs, written in Python.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import gpupipe as gp
from gpupipe.datasets.churn import customers

frame = customers(20_000, seed=7).to_pandas()
frame[["tenure", "Contract", "MonthlyCharges", "City", "signup_ts", "Churn"]].head()

# %%
# Features are a list of ops. ``encode`` gives each model the form that suits it: integer codes for trees, one-hot
# columns for a linear model. ``target_encode`` replaces 2,000 cities by their smoothed churn rate, out of fold: no
# row sees its own target.

folder = tempfile.TemporaryDirectory()
pipe = gp.Pipeline(
    frame,
    target="Churn",
    positive="Yes",
    drop="customerID",
    split={"test_size": 0.25, "stratify": True},
    features=[
        {"impute": {"columns": "@numeric", "strategy": "median", "indicator": True}},
        {"log1p": ["TotalCharges", "DataUsageGB"]},
        {"standardize": "@numeric"},
        {"encode": ["@categorical", "!City"]},
        {"target_encode": {"columns": "City", "folds": 5, "smoothing": 20}},
        {"cyclic": {"columns": "signup_ts", "parts": ["hour", "weekday"]}},
    ],
    models=["logistic_regression", {"hist_gradient_boosting": {"max_iter": 60}}],
    evaluate={"metrics": ["roc_auc", "average_precision", "log_loss"]},
    seed=7,
    output=folder.name,
)
run = pipe.run(quiet=True)
run.leaderboard.round(3)

# %%
# Whom to call
# ------------
#
# The predictions are those of test rows, which took no part in training or in the choice of the model. Sorted by score,
# the first rows hold far more leavers than the same number of rows drawn at random.

predictions = run.predictions.sort_values("probability_Yes", ascending=False)
leaves = (predictions["target"] == "Yes").to_numpy()
called = np.arange(1, len(leaves) + 1)
print(f"of the 500 highest scores, {leaves[:500].sum()} leave; of 500 drawn at random, {500 * leaves.mean():.0f} would")

fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.plot(called, leaves.cumsum(), label="by score")
axis.plot(called, called * leaves.mean(), linestyle="--", label="at random")
axis.axvline(500, color="0.6", linewidth=1)
axis.set(xlabel="customers called", ylabel="leavers among them")
axis.legend()

# %%
# What the model relies on
# ------------------------
#
# Permutation importance: how much the metric drops on test rows if a column is shuffled.

top = run.importances.head(8).iloc[::-1]
fig, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.barh(top["column"], top["importance"], xerr=top["std"])
axis.set(xlabel=f"drop of {run.importances.attrs['metric']} when shuffled")

# %%
# The model is a directory: schema, features and estimator, without pickle. It scores a table, or one row.

new = customers(1000, seed=8).to_pandas()
print(run.model.predict_proba(new)[:3, 1].round(3))
print(run.model.predict(new.iloc[0].to_dict()))
folder.cleanup()
