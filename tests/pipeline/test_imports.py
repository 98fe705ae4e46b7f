from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpupipe.timeline.timeline import Timeline
from gpupipe.training.imports import record_imports

HEAVY = {"sklearn", "scipy", "xgboost", "skops", "joblib", "matplotlib", "jinja2"}
RUN = f"""
import json, sys
from pathlib import Path
from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline

class Modules:
    before = set()
    imported = {{}}
    def started(self, stage): self.before = set(sys.modules)
    def noted(self, note): pass
    def ended(self, stage):
        new = {{module.partition(".")[0] for module in set(sys.modules) - self.before}}
        self.imported[stage.name] = sorted(new & {HEAVY})

run_pipeline(parse_config({{
    "name": "x", "source": {{"generate": "churn", "rows": 400, "target": "Churn"}}, "split": {{"cv": 2}},
    "models": [{{"hist_gradient_boosting": {{"max_iter": 30}}}}, {{"xgboost": {{"n_estimators": 1, "max_depth": 1}}}}],
    "evaluate": {{"calibrate": "isotonic", "threshold": "best_f1", "importance": {{"repeats": 1, "rows": 50}}}},
}}), Path(sys.argv[1]), [Modules()])
print(json.dumps(Modules.imported))
"""


def test_no_stage_imports_a_library(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    by_stage = json.loads(done.stdout.splitlines()[-1])
    assert len(by_stage) > 10
    assert {name: libraries for name, libraries in by_stage.items() if libraries} == {}
    timeline = json.loads((tmp_path / "run" / "timeline.json").read_text(encoding="utf-8"))
    assert {"sklearn", "xgboost"} <= set(timeline["imports"])
    stages = sum(stage["seconds"] for stage in timeline["stages"] if not stage["depth"])
    assert stages + sum(timeline["imports"].values()) <= timeline["seconds"] + 1e-3


def test_a_library_that_is_missing_or_imported_is_not_reported(monkeypatch: Any) -> None:
    timeline = Timeline()
    record_imports(timeline, ["json", "no_such_library.x"])
    assert (timeline.imports, timeline.notes) == ({}, [])
    monkeypatch.setattr("gpupipe.training.imports.import_module", lambda name: SimpleNamespace())
    record_imports(timeline, ["slow.part", "slow.other", "gpupipe.own"])
    assert set(timeline.imports) == set(timeline.to_json()["imports"]) == {"slow", "gpupipe"}
    assert [note.text.rpartition(" in ")[0] for note in timeline.notes] == ["imported slow"]
