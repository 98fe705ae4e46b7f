"""
How far is it, and what does the trip cost?
===========================================

Coordinates are poor features for a linear model: a fare depends on the distance between two points, not on where they
are. Two ops compute what matters, and a third turns the clock into a circle.
"""

import tempfile

import numpy as np
import pandas as pd

import gpupipe as gp

# %%
# Trips in a city, generated: a fare per mile along a grid of streets that is turned by 29 degrees, a surcharge in the
# evening rush, and noise.

rng = np.random.default_rng(7)
n = 20_000
start = np.column_stack([rng.normal(40.75, 0.03, n), rng.normal(-73.97, 0.03, n)])
end = start + np.column_stack([rng.normal(0, 0.03, n), rng.normal(0, 0.03, n)])
miles = (end - start) * [69.0, 69.0 * np.cos(np.radians(40.75))]
angle = np.radians(29)
along = np.abs(miles @ [np.cos(angle), np.sin(angle)])
across = np.abs(miles @ [-np.sin(angle), np.cos(angle)])
pickup = pd.Timestamp("2026-03-02") + pd.to_timedelta(rng.integers(0, 28 * 24 * 60, n), unit="min")
rush = (pickup.hour >= 16) & (pickup.hour < 20) & (pickup.day_of_week < 5)
fare = 3.0 + 2.5 * along + 3.1 * across + 4.0 * rush + rng.gamma(2.0, 0.5, n)
trips = pd.DataFrame(
    {
        "pickup_lat": start[:, 0],
        "pickup_lon": start[:, 1],
        "dropoff_lat": end[:, 0],
        "dropoff_lon": end[:, 1],
        "pickup": pickup,
        "fare": fare,
    }
)
trips.head(3)

# %%
# Three lists of features, the same two models. The errors are those of five-fold cross-validation.

points = {"from": ["pickup_lat", "pickup_lon"], "to": ["dropoff_lat", "dropoff_lon"], "unit": "mi"}
bearing = {name: value for name, value in points.items() if name != "unit"}
FEATURES = {
    "coordinates": [{"standardize": "@numeric"}],
    "+ distance": [{"haversine": points}, {"standardize": "@numeric"}],
    "+ direction and time": [
        {"haversine": points},
        {"bearing": bearing},
        {"cyclic": {"columns": "pickup", "parts": ["hour", "weekday"]}},
        {"standardize": "@numeric"},
    ],
}
folder = tempfile.TemporaryDirectory()
errors = {}
for name, features in FEATURES.items():
    pipe = gp.Pipeline(
        trips,
        target="fare",
        split={"cv": 5},
        features=features,
        models=["ridge", {"hist_gradient_boosting": {"max_iter": 60}}],
        evaluate={"metrics": ["mae", "r2"]},
        report={"enabled": False},
        output=folder.name,
    )
    run = pipe.run(quiet=True)
    errors[name] = run.leaderboard.set_index("model")["mae"]
table = pd.DataFrame(errors).T
table.round(2)

# %%
# The distance makes the linear model useful. Trees find part of it in raw coordinates; with the distance and the
# direction they combine both, and learn that trips across the grid cost more.

axis = table.plot.barh(figsize=(7, 3.5))
axis.invert_yaxis()
axis.set(xlabel="mean absolute error of the fare ($)")
axis.figure.set_layout_engine("constrained")
folder.cleanup()
