"""Configurations of the repository, and some for a small table, which are also planned and run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gpupipe
from tools.fuzz.configurations import changed
from tools.fuzz.kinds import MODELS, FuzzCommand, InputKind, SoundBase, run_config
from tools.fuzz.tables import LEARNED, written

FOLDER = Path(gpupipe.__file__).parents[1] / "configs"
FEATURES = (
    "",
    "split: {cv: 2}\nfeatures:\n- impute: {columns: '@numeric', strategy: median}\n- standardize: [tenure, charges]\n"
    "- one_hot: [plan, city]\n- target_encode: {columns: [city], folds: 2}\n- datetime_parts: [since]\n",
    "features:\n- bucketize: {columns: [charges], bins: 4}\n- cross: {columns: [city, plan], as: both}\n"
    "- frequency_encode: [both]\n- hash_bucket: {columns: [city], buckets: 8}\n- cyclic: {columns: [since], "
    "parts: [hour]}\nevaluate: {metrics: [roc_auc, log_loss], threshold: best_f1}\n",
)
ON_CPU = ("--device", "cpu", "--set", "cluster={}")  # no GPU is probed, and no cluster is contacted
ANY = frozenset({0, 2, 3, 5})


def configuration_kind(schema: dict[str, Any]) -> InputKind:
    """Return the kind; `schema` is the JSON Schema of configurations."""
    return InputKind(list(_bases()), partial(changed, schema=schema))


def _bases() -> Iterator[SoundBase]:
    check = FuzzCommand(("check", "--no-data", "FILE"), frozenset({0, 2}), check=_check, share=16)
    look = FuzzCommand(("check", "FILE"), ANY, share=3)
    plan = FuzzCommand(("plan", "FILE", *ON_CPU), ANY, share=3, may_be_long=True)
    run = ("run", "FILE", *ON_CPU, "--set", "source.rows=60", "--output", "out", "--quiet")
    for path in sorted(FOLDER.glob("*.yaml")):
        yield SoundBase(path.name, {"c.yaml": path.read_bytes()}, "c.yaml", (check,))
    for file in ("plain.csv", "snappy.parquet"):
        table = written(file.rpartition(".")[2])[file]
        for features in FEATURES:
            text = run_config(f"path: {file}, {LEARNED}", MODELS["linear"]) + features
            commands = (check, look, plan, FuzzCommand(run, ANY, "out", may_be_long=True))
            yield SoundBase(file, {"c.yaml": text.encode(), file: table}, "c.yaml", commands)


def _check(folder: Path) -> str:
    """Return a problem if the written configuration reads back as a different one."""
    from gpupipe.config import load_config
    from gpupipe.config.resolved_yaml import resolved_yaml

    path = folder / "c.yaml"
    text = resolved_yaml(load_config(path))
    path.write_text(text, encoding="utf-8")
    return (
        "" if resolved_yaml(load_config(path)) == text else "the resolved configuration reads back as a different one"
    )
