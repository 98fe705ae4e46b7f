"""Examples of the configuration's sections; a test parses each of them."""

from __future__ import annotations

EXAMPLES = {
    "index": """
source:
  path: data/customers.csv
  target: churned
  id: customer_id
split: {test_size: 0.2, stratify: true}
features:
  - impute: {columns: "@numeric", strategy: median, indicator: true}
  - standardize: "@numeric"
  - encode: "@categorical"
models: [logistic_regression, hist_gradient_boosting, xgboost]
evaluate: {metrics: [roc_auc, average_precision], threshold: best_f1}
output: runs/
""",
    "general": """
name: churn
seed: 7
device: auto
output: runs/
""",
    "source": """
source:
  path: data/customers-*.csv
  target: churned
  positive: "yes"
  id: customer_id
  drop: ["internal_*"]
  schema:
    zip: categorical
    signup: {kind: datetime, format: "%d.%m.%Y"}
  where: age >= 18
  csv: {delimiter: ";", decimal: ","}
""",
    "tables": """
tables:
  regions:                      # many customers, one region: its columns are joined
    path: data/regions.parquet
    on: region_id
    cardinality: many_to_one
  orders:                       # one customer, many orders: read by the ops over histories
    path: data/orders.parquet
    on: customer_id
    time: ordered_at
    cardinality: one_to_many
""",
    "data": """
data:
  tenure: {dtype: int, nulls: false, range: [0, 100]}
  signup: {range: [2015-01-01, null]}
  contract: {set: [monthly, yearly]}
  email: {regex: '.+@.+', otherwise: warn}
  customer_id: {unique: true}
""",
    "split": """
split:
  time: signup                  # train on earlier rows, test on the latest fifth
  test_size: 0.2
""",
    "features": """
features:
  - impute: {columns: "@numeric", strategy: median}
  - log1p: {columns: spend, as: spend_log}
  - standardize: ["@numeric", "!zip"]
  - target_encode: city
  - encode: "@categorical"
""",
    "models": """
models:
  - logistic_regression
  - xgboost: {max_depth: 4, n_estimators: 300}
  - name: xgboost
    params: {max_depth: 8}
    as: deep_trees
""",
    "evaluate": """
evaluate:
  metrics: [roc_auc, average_precision, log_loss]
  select_by: average_precision
  cost: {false_positive: 1, false_negative: 5}
  calibrate: isotonic
""",
    "report": """
report: {title: Churn in spring}
""",
    "track": """
track: {mlflow: "http://localhost:5000", experiment: churn, tags: {team: risk}}
""",
    "limits": """
limits:
  memory: 8GiB
  time: 2h
  cost: 12.5
  price: {hour: 3.2, gpu_hour: 2.5, kwh: 0.3}
""",
    "monitor": """
monitor: {period: 5s}
""",
    "gpu": """
gpu: {allocator: async, limit: 40GiB, spill: false}
""",
    "cluster": """
cluster:
  scheduler: local
  workers: 4
  memory_limit: 8GiB
""",
}
