"""
New rows every month: keep the model, continue it, or train it again?
=====================================================================

A model of January is used until December, while customers change. Each month brings new rows with their outcome. Three
answers are compared: the model of January stays; its training continues with each month, without the rows of before; or
it is trained again on all rows so far.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import gpupipe as gp

# %%
# Subscriptions, generated. The price matters more from month to month, and a plan that did not exist in January becomes
# frequent.

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()


def month(number: int) -> str:
    """Write the rows of a month and return the path of the file."""
    n = 4_000
    plan = np.where(rng.random(n) < 0.04 * number, "family", rng.choice(["basic", "plus"], n))
    tenure, price = rng.exponential(24.0, n), rng.normal(30.0, 8.0, n)
    score = 0.02 * (number + 1) * (price - 30.0) - 0.04 * tenure + 0.6 * (plan == "family") + 0.3 * (plan == "plus")
    left = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
    frame = pd.DataFrame({"plan": plan, "tenure": tenure, "price": price, "left": left})
    path = Path(folder.name, f"{number:02}.parquet")
    frame.to_parquet(path)
    return str(path)


months = [month(number) for number in range(8)]

# %%
# The model of January, then an update for each month: continued without the old rows, and trained again with them.

first = gp.Pipeline(
    months[0], target="left", models=["logistic_regression"], evaluate={"importance": False}, report={"enabled": False}
).run(Path(folder.name, "first"))
continued, rows = first, []
for number in range(1, 7):
    old = str(Path(folder.name, "old.parquet"))
    pd.concat(map(pd.read_parquet, months[:number])).to_parquet(old)
    update = gp.update_model(continued.path, months[number], output=Path(folder.name, f"continued_{number}"))
    again = gp.update_model(first.path, months[number], old, output=Path(folder.name, f"again_{number}"))
    continued = update.run
    following = pd.read_parquet(months[number + 1])
    scores = {}
    for name, run in {"kept": first, "continued": continued, "trained again": again.run}.items():
        scores[name] = run.model.drift(following).metrics[0].value
    rows.append({"month": number + 1, **scores, "verdict": update.verdict})

# %%
# ROC-AUC on the following month. The continued model has never seen two months together, and is close to the one that
# has: the loss of the old rows is in the model, as an expansion to the second order.

pd.DataFrame(rows).round(4)

# %%
# In production, ``gpupipe promote`` lets a challenger take over, and ``gpupipe history`` prints what it descends from.

folder.cleanup()
