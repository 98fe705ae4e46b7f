"""
How do I encode a column with thousands of levels?
==================================================

A merchant, a postcode, a product: one-hot encoding makes thousands of columns of it, and the plain mean of the target
per level gives each training row its own answer. This page compares five encodings, and shows that leak.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import gpupipe as gp

# %%
# Sales at 3,000 merchants, most of them rare. Merchants differ in risk; the amount helps a little.

rng = np.random.default_rng(7)
n, n_merchants = 20_000, 3000
risk = rng.normal(-1.5, 1.2, n_merchants)
merchant = rng.permutation(n_merchants)[np.minimum(rng.pareto(0.6, n) * 20, n_merchants - 1).astype(int)]
amount = rng.gamma(2.0, 30.0, n)
fraud = rng.random(n) < 1 / (1 + np.exp(-(risk[merchant] + 0.004 * (amount - 60))))
sales = pd.DataFrame({"merchant": np.char.add("m", merchant.astype(str)), "amount": amount})
counts = sales["merchant"].value_counts()
print(f"{len(counts):,} merchants; {np.mean(counts < 5):.0%} of them with fewer than 5 sales")

train, test, y_train, y_test = train_test_split(sales, fraud, test_size=0.5, random_state=7)

# %%
# ``FeatureProgram`` is a scikit-learn transformer. ``fit_transform`` returns training rows as a model may see them: a
# target statistic of a row comes from the other folds. ``transform`` uses the statistics of all training rows.

ENCODINGS = {
    "one-hot": {"one_hot": {"columns": "merchant", "max_categories": 4096}},
    "hash into 64 codes": {"hash_bucket": {"columns": "merchant", "buckets": 64}},
    "frequency": {"frequency_encode": {"columns": "merchant"}},
    "target, out of fold": {"target_encode": {"columns": "merchant", "folds": 5, "smoothing": 10}},
}
scores = {}
for name, op in ENCODINGS.items():
    program = gp.FeatureProgram([op, {"standardize": "amount"}])
    X_train, X_test = program.fit_transform(train, y_train), program.transform(test)
    model = LogisticRegression(max_iter=200).fit(X_train, y_train)
    scores[f"{name} ({X_train.shape[1]:,} columns)"] = {
        "training rows": roc_auc_score(y_train, model.predict_proba(X_train)[:, 1]),
        "test rows": roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]),
    }

# %%
# The naive mean, computed from all training rows and used on the same rows. A merchant with one sale has the answer of
# that sale in its column.

means = pd.Series(y_train).groupby(train["merchant"].to_numpy()).mean()
X_train, X_test = (
    np.column_stack([part["merchant"].map(means).fillna(y_train.mean()), part["amount"] / 60]) for part in (train, test)
)
model = LogisticRegression().fit(X_train, y_train)
scores["naive mean (2 columns)"] = {
    "training rows": roc_auc_score(y_train, model.predict_proba(X_train)[:, 1]),
    "test rows": roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]),
}
table = pd.DataFrame(scores).T
table.round(3)

# %%
# The gap between training and test rows is what a model has memorised. The naive mean has the largest gap: its training
# score promises much more than new rows get. The out-of-fold encoding has none, and with 2 columns scores as one-hot
# encoding does with 1,172.

axis = table.plot.barh(figsize=(7, 4))
axis.set(xlabel="ROC AUC", xlim=(0.5, 1))
axis.invert_yaxis()
axis.legend(loc="lower right")
axis.figure.set_layout_engine("constrained")
