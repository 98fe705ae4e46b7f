"""Configurations that use every text setting, and the tables and code that they name."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

# Every text is distinctive, or belongs to a table: columns and values of tables may be shown.
DOCUMENTS = {
    "files": """
name: project pelican ledger
output: gannet_runs/
device: cpu
source:
  {path: [heron_rows.csv], target: walnut, positive: amberlight, id: velvet, drop: ["zephyr*"],
   columns: ["*"], where: "lantern < 9 and orchard != 'cerulean'", prepare: "toucan_hooks.py:ferret",
   schema: {harbour: {kind: float32, units: furrow}, quartz: categorical,
    meadow: {kind: datetime, format: "%Y-%m-%d"}},
   csv: {delimiter: ";", encoding: latin-1, null_values: [vacant lot], comment: "@@##", decimal: ".",
         thousands: ",", quote: '"'}}
tables:
  plovers: {path: plover_sectors.csv, "on": {left: orchard, right: orchard}, cardinality: many_to_one,
    drop: [isthmus, fjord], prefix: sandstone_, columns: ["*"], where: "tundra != 47251",
    csv: {null_values: [empty nest]}, schema: {tundra: float32}}
  ospreys: {path: osprey_events.csv, "on": {left: velvet, right: velvet}, cardinality: one_to_many, time: moment,
    where: "tariff > 1 and sector != 'vermilion'", compute: {duty: "tariff * 1.0625"}, columns: [velvet, moment, duty],
    prepare: "toucan_hooks.py:ferret", schema: {moment: {kind: datetime, format: "%Y-%m-%d"}},
    group_by: {keys: [velvet, moment], columns: {duty: sum}}}
data:
  orchard: {dtype: text, set: [saffron, indigo, umber, heliotrope], regex: "saffron|indigo|umber|marigold"}
  meadow: {range: ["2023-01-02", "2025-02-03"]}
split: {group: quartz}
features:
  - impute: {columns: orchard, strategy: constant, value: umber}
  - standardize: [harbour]
  - one_hot: {columns: orchard}
  - text_counts: {columns: quartz, patterns: {willows: "w[i]llow|aspen"}, prefix: limestone_}
  - aggregate: {table: ospreys, time: moment, as_of: meadow, prefix: granite_, gap: 3d, columns: [duty]}
models:
  - {gaussian_nb: {}, as: first turnstone}
evaluate: {metrics: [roc_auc, log_loss], select_by: roc_auc, by: [{column: orchard}], max_latency: 17s,
  reason_codes: {columns: {orchard: {code: jackdaw seven, text: yield of the bittern}}, exclude: [harbour], top: 1,
    adverse: amberlight}}
limits: {memory: 5GiB, time: 47min}
monitor: {period: 1.7s}
report: {title: Quarterly grebe review, plots: false}
track: {mlflow: "http://fulmar:hoopoe77@127.0.0.1:9/x", experiment: skua experiment, wandb: petrel project,
  tags: {owner: guillemot team}, timeout: 1.1s}
""",
    "entities": """
source: {entities: {table: ospreys, as_of: ["2024-05-01", "2024-06-01"], active_within: 200d, until: "2024-09-25",
  label: {none: ospreys, within: 40d}}, target: churlish, cache: dunlin_cache}
tables:
  ospreys: {path: osprey_events.csv, "on": {left: velvet, right: velvet}, cardinality: one_to_many, time: moment,
    csv: {delimiter: ",", encoding: utf8, decimal: ".", comment: "%%%%", quote: '"', thousands: "'"}}
device: cpu
features:
  - aggregate: {table: ospreys, columns: [tariff], prefix: oak_, gap: 2d}
  - lag: {table: ospreys, columns: [tariff], prefix: elm_, periods: [1], gap: 1d}
  - difference: {table: ospreys, columns: [tariff], prefix: ash_, gap: 1d}
  - rolling: {table: ospreys, columns: [tariff], windows: [31d], prefix: fir_, gap: 1d}
  - decay: {table: ospreys, columns: [tariff], half_life: [33d], prefix: yew_, gap: 1d}
  - sessions: {table: ospreys, gap: 29h, prefix: bay_}
  - time_since: {table: ospreys, columns: [tariff], prefix: fig_, gap: 1d}
  - rfm: {table: ospreys, amount: tariff, prefix: box_, gap: 1d}
  - last_events: {table: ospreys, columns: [tariff], prefix: tea_, gap: 1d}
models: [gaussian_nb]
report: {plots: false, title: cassowary chart}
""",
    "database": """
source: {sql: "SELECT harbour, lantern, pylon, scoria, quartz, meadow, orchard, walnut,
    lantern || ' furlong' AS mizzen, json_array('sorrel glen', orchard) AS thistle, kestrel
    FROM emu_rows WHERE lantern < 1001",
  uri: "sqlite:///emu.db", target: [walnut], positive: {walnut: darkwater}, weight: kestrel,
  schema: {meadow: datetime, mizzen: text}}
tables:
  p: {sql: "SELECT orchard, tundra, fjord FROM rhea_sectors", uri: "sqlite:///emu.db",
    "on": {left: orchard, right: orchard}, cardinality: many_to_one, schema: {tundra: categorical}}
device: cpu
split: {time: meadow, cutoff: "2024-07-15", gap: 9h, window: 300d}
features:
  - null_if: {columns: harbour, values: [0.5], as: "auk_{column}"}
  - impute: {columns: lantern, as: "kea_{column}"}
  - min_max: {columns: harbour, as: "tui_{column}"}
  - robust_scale: {columns: harbour, as: "rook_{column}"}
  - standardize: {columns: harbour, as: "crow_{column}"}
  - log1p: {columns: lantern, as: "lark_{column}"}
  - yeo_johnson: {columns: harbour, as: "wren_{column}"}
  - clip: {columns: harbour, quantiles: [0.1, 0.9], as: "swan_{column}"}
  - bucketize: {columns: lantern, edges: [3, 5], as: "duck_{column}"}
  - cross: {columns: [orchard, tundra], as: coot_cross}
  - hash_bucket: {columns: orchard, buckets: 8, as: "dove_{column}"}
  - categorify: {columns: orchard, levels: [saffron, osprey grey]}
  - frequency_encode: {columns: orchard}
  - target_encode: {columns: orchard}
  - target_encode: {columns: orchard, of: harbour}
  - cyclic: {columns: meadow, zone: Asia/Kathmandu}
  - cyclic: {columns: meadow, parts: [month], zone: {column: fjord}}
  - datetime_parts: {columns: meadow, parts: [minute], zone: {column: fjord}}
  - datetime_parts: {columns: meadow, zone: Pacific/Chatham, holidays: ["2031-07-19"]}
  - group_stats: {columns: harbour, by: orchard, prefix: chalk_}
  - haversine: {from: [pylon, scoria], to: [scoria, pylon], as: tern_km}
  - bearing: {from: [pylon, scoria], to: [scoria, pylon], as: ibis_degrees}
  - arithmetic: {ratio: [harbour, lantern], as: cormorant_ratio}
  - arithmetic: {difference: [harbour, lantern], as: shag_less}
  - arithmetic: {product: [harbour, lantern], as: gull_times}
  - arithmetic: {sum: [harbour, lantern], as: knot_plus}
  - polynomial: {columns: [harbour, lantern]}
  - expression: {expressions: {ratioed: "harbour / (lantern + 3.0625)"}}
  - text_hash: {columns: quartz, prefix: shale_}
  - text_vectors: {columns: quartz, prefix: flint_, n_components: 2}
  - parse_number: {columns: mizzen, prefix: slate_, units: [furlong]}
  - multi_hot: {columns: thistle, prefix: gabbro_, levels: [sorrel glen]}
  - list_stats: {columns: thistle, prefix: gneiss_}
  - list_hash: {columns: thistle, prefix: marl_, buckets: 2}
  - list_columns: {columns: thistle, prefix: tufa_, size: 1}
  - bag_ids: {columns: thistle, prefix: chert_, levels: [fescue glen]}
  - drop: {columns: [quartz, mizzen]}
  - encode: {columns: orchard}
  - auto: {columns: "@numeric"}
models: [gaussian_nb]
report: {plots: false}
""",
}
# Runs that take long, or end with an error: they import large libraries, start workers, or train many models.
NIGHTLY = {
    "search": """
source: {path: heron_rows.csv, target: walnut, csv: {delimiter: ";"}, drop: [velvet, quartz]}
device: cpu
features:
  - encode: {columns: orchard}
  - kernel: {use: "weasel_kernel.py:badger", inputs: [harbour, lantern], as: stoat_out}
models:
  - {estimator: {use: "toucan_hooks.py:marmot", params: {note: basalt marker}}, as: third turnstone,
     tune: {trials: 2, folds: 2, time_limit: 95s, space: {note: {choices: [feldspar note, mica note]}}}}
report: {title: osprey page}
track: {wandb: petrel project, tags: {owner: guillemot team}, artifacts: [report, model, predictions]}
""",
    "models": """
source: {path: heron_rows.csv, target: walnut, csv: {delimiter: ";", names: [%s], skip_rows: 1}, drop: [velvet, quartz]}
device: cpu
split: {column: {name: orchard, train: [saffron, indigo], test: [umber]}}
models:
  - {xgboost: {n_estimators: 3, eval_metric: aucpr, interaction_constraints: [[harbour, lantern]]}, as: one}
  - {lightgbm: {n_estimators: 3, eval_metric: average_precision, interaction_constraints: [[harbour, lantern]]}}
  - {catboost: {iterations: 3, eval_metric: PRAUC}}
  - {hist_gradient_boosting: {max_iter: 3, early_stopping: true, scoring: balanced_accuracy,
      interaction_cst: [[harbour, lantern]]}}
report: {plots: false}
""",
    "generated": """
source: {generate: churn, rows: 500, target: Churn}
tables: {t: {generate: churn, rows: 500, "on": {left: customerID, right: customerID}, cardinality: one_to_one,
  prefix: chert_, schema: {tenure: {kind: numeric, units: gantry}}, csv: {names: [shrike, dipper]}}}
features: [{generate: {columns: "@numeric"}}, {drop: "chert_*"}, {drop: customerID}]
models: [{best: {models: [logistic_regression], time_limit: 3s}}]
report: {plots: false}
""",
    "DuckDB": """
source: {sql: "SELECT 1 AS walnut", uri: "duckdb://", target: walnut,
  sql_options: {directories: [curlew_folder], extensions: [whimbrel_extension]}}
tables: {t: {sql: "SELECT 1 AS orchard", uri: "duckdb://", "on": {left: orchard, right: orchard},
  cardinality: one_to_one, sql_options: {directories: [dabchick_folder], extensions: [corncrake_extension]}}}
models: [gaussian_nb]
""",
    "Delta table": """
source: {delta: kiwi_table, target: walnut, id: velvet, drop: [quartz]}
tables: {t: {delta: kiwi_table, columns: [velvet, lantern], prefix: chalk_, "on": {left: velvet, right: velvet},
  cardinality: one_to_one}}
device: cpu
models: [{name: gaussian_nb}]
evaluate: {by: orchard}
report: {plots: false}
""",
    "named catalog": """
source: {iceberg: hawk.talons, catalog: kestrels_catalog, target: walnut}
tables: {t: {iceberg: hawk.talons, catalog: {type: sql, uri: "sqlite:///merlin.db"},
  "on": {left: orchard, right: orchard}, cardinality: one_to_one}}
models: [gaussian_nb]
""",
    "catalog": """
source: {iceberg: hawk.talons, catalog: {type: sql, uri: "sqlite:///merlin.db"}, target: walnut}
tables: {t: {iceberg: hawk.talons, catalog: kestrels_catalog, "on": {left: orchard, right: orchard},
  cardinality: one_to_one}}
models: [gaussian_nb]
""",
    "cluster": """
source: {path: heron_rows.csv, target: walnut, csv: {delimiter: ";"}}
device: cpu
cluster: {scheduler: "tcp://127.0.0.1:9", memory_limit: 2GiB, deadline: 0.3,
  rmm_pool_size: 3GiB, device_memory_limit: 5GiB}
gpu: {initial_pool: 1GiB, limit: 2GiB}
models: [gaussian_nb]
""",
    "local cluster": """
source: {path: heron_rows.csv, target: walnut, csv: {delimiter: ";"}}
cluster: {scheduler: local, workers: 1, dashboard_address: "127.0.0.1:0"}
models: [gaussian_nb]
""",
    "history of the main table": """
source: {path: osprey_events.csv, target: tariff}
device: cpu
features:
%s
models: [{ridge: {}}]
report: {plots: false}
""",
}
for _function in ("any", "count", "sum", "mean", "min", "max"):
    _of = "ospreys.tariff" if _function in ("sum", "mean", "min", "max") else "ospreys"
    _document = DOCUMENTS["entities"].replace("none: ospreys", f"{_function}: {_of}")
    NIGHTLY[f"label by {_function}"] = _document.replace("models: [gaussian_nb]", "models: [hist_gradient_boosting]")
_OPS = {
    "aggregate": "columns: [harbour]", "lag": "columns: [harbour], periods: [7d]", "difference": "columns: [harbour]",
    "rolling": "columns: [harbour], windows: [31d]", "decay": "columns: [harbour], half_life: [33d]",
    "sessions": "gap: 29h", "time_since": "columns: [harbour]", "rfm": "amount: harbour",
    "last_events": "columns: [harbour]",
}  # fmt: skip
NIGHTLY["history of the main table"] %= "\n".join(
    f"  - {op}: {{key: [velvet], time: moment, {own}, prefix: {op[:3]}_own_}}" for op, own in _OPS.items()
)
NIGHTLY["history before a time"] = """
source: {path: heron_rows.csv, target: walnut, csv: {delimiter: ";"}, drop: [quartz]}
tables: {ospreys: {path: osprey_events.csv, "on": {left: velvet, right: velvet}, cardinality: one_to_many}}
device: cpu
features:
%s
  - drop: ["@text", velvet]
models: [gaussian_nb]
report: {plots: false}
"""
NIGHTLY["history before a time"] %= "\n".join(
    f"  - {op}: {{table: ospreys, time: moment, as_of: meadow, {own}}}" for op, own in _OPS.items()
)

COLUMNS = [
    "harbour", "lantern", "orchard", "quartz", "meadow", "velvet", "kestrel", "walnut", "pylon", "scoria", "zephyrus",
]  # fmt: skip
NIGHTLY["models"] %= ", ".join(COLUMNS)
HOOKS = """
def ferret(table):
    return table

def marmot(note):
    from sklearn.pipeline import Pipeline
    from sklearn.tree import DecisionTreeClassifier
    return Pipeline([(note, DecisionTreeClassifier(max_depth=2, random_state=1))])
"""
KERNEL = """
import gpupipe as gp

@gp.kernel
def badger(a, b):
    return a + 2.0 * b
"""


def write_inputs(folder: Path) -> set[str]:
    """Write the tables and the code of the documents; return the columns, names of tables and values of the tables."""
    draw = random.Random(5)
    rows = pd.DataFrame(
        [
            (
                round(draw.random(), 3), draw.randint(1, 9), draw.choice(["saffron", "indigo", "umber"]),
                f"{draw.choice(['willow', 'sparrow'])} of {i % 40} furlong", f"2024-0{1 + i % 9}-1{i % 9}",
                f"id{i:03d}",
                draw.choice([1.5, 2.5]), draw.choice(["amberlight", "darkwater"]), round(draw.uniform(-80, 80), 2),
                round(draw.uniform(-80, 80), 2), 7,
            )
            for i in range(200)
        ],
        columns=COLUMNS,
    )  # fmt: skip
    events = pd.DataFrame(
        [
            (f"id{draw.randrange(200):03d}", f"2024-0{draw.randint(1, 9)}-{draw.randint(10, 28)}", draw.randint(1, 99),
             draw.choice(["copper", "pewter"]), round(draw.random(), 3))
            for _ in range(800)
        ],
        columns=["velvet", "moment", "tariff", "sector", "harbour"],
    )  # fmt: skip
    sectors = pd.DataFrame({"orchard": ["saffron", "indigo", "umber"], "tundra": [1, 2, 3], "isthmus": ["x", "y", "z"]})
    sectors["fjord"] = ["Asia/Tokyo", "Europe/Oslo", "UTC"]
    rows.to_csv(folder / "heron_rows.csv", sep=";", index=False)
    events.to_csv(folder / "osprey_events.csv", index=False)
    sectors.to_csv(folder / "plover_sectors.csv", index=False)
    with sqlite3.connect(folder / "emu.db") as database:
        rows.to_sql("emu_rows", database, index=False)
        sectors.to_sql("rhea_sectors", database, index=False)
    database.close()
    (folder / "toucan_hooks.py").write_text(HOOKS)
    (folder / "weasel_kernel.py").write_text(KERNEL)
    shown = {
        "duty",
        "mizzen",
        "thistle",
        "churlish",
        "ospreys",
        "ospreys.tariff",
        "churn",
        "plovers",
        "customerID",
        "Churn",
        "tenure",
    }
    for table in (rows, events, sectors):
        shown |= {*table.columns, *(value for column in table for value in table[column] if isinstance(value, str))}
    return shown


def read_document(name: str) -> Any:
    """Return the document `name`, with models as mappings."""
    document = yaml.safe_load((DOCUMENTS | NIGHTLY)[name])
    document["models"] = [{model: {}} if isinstance(model, str) else model for model in document["models"]]
    return document
