"""The benchmark of texts, on a small table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import text

TABLE = text.TextTable("", "", "price", ("title",), ("size",), True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(text, "TABLES", {"books": TABLE})
    rng = np.random.default_rng(0)
    words, value = np.array(["atlas", "novel", "guide", "of", "rome", "cats"]), np.array([9.0, 3.0, 5.0, 0.0, 1.0, 0.0])
    chosen = rng.integers(0, 6, (150, 4))
    frame = pd.DataFrame({"title": [" ".join(words[row]) for row in chosen], "size": rng.random(150)})
    frame.assign(price=value[chosen].sum(axis=1)).to_parquet(tmp_path / "books.parquet")
    return tmp_path


def test_contenders_are_compared_on_the_same_folds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = folder / "results.jsonl"
    run = ["run", "--folder", str(folder), "--output", str(output), "--contenders", "text_vectors,none,tfidf"]
    text.main(run)
    text.main(run)  # what is done is not repeated
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(r["contender"], r["fold"]) for r in records] == [
        (name, fold) for fold in range(3) for name in ("text_vectors", "none", "tfidf")
    ]
    of_texts = {r["contender"]: r for r in records}
    assert of_texts["text_vectors"]["score"] > 0.8 > 0.2 > of_texts["none"]["score"]
    assert of_texts["text_vectors"]["bytes"] > 1000 and not of_texts["none"]["bytes"]
    assert sorted(path.name for path in folder.iterdir()) == ["books.parquet", "results.jsonl"]
    text.main(["report", str(output)])
    assert "| table | text_vectors | none | tfidf |" in capsys.readouterr().out
