"""The lineage of a model: written and read again, damaged, and a model that has one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe import ArtifactError, Pipeline, load_model
from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.cli import main
from gpupipe.model_parts.lineage import NAME, Generation, read_lineage, write_lineage
from tests.examples import examples
from tests.model_parts.conftest import with_lineage

FIRST = Generation("ab" * 32, "2026-09-01T06:00:00+00:00", 9_000, ("2026-01-01", "2026-08-31"), "trained", None, ())
SECOND = Generation("", "2026-10-01T06:00:00+00:00", 800, None, "continued", "promote", ("log_loss: 0.31, was 0.35",))
FRAME = pd.DataFrame({"age": range(120), "left": ["no", "yes"] * 30 + ["yes"] * 60})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lineage") / "run"
    quick: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}}
    Pipeline(FRAME, target="left", models=["logistic_regression"], **quick).run(folder, quiet=True)
    return folder / "model"


def test_a_model_with_a_lineage_loads_verifies_pickles_and_is_exported(trained: Path, tmp_path: Path) -> None:
    assert read_lineage(trained) == ()
    model = load_model(with_lineage(trained, tmp_path / "model", FIRST, SECOND), "cpu")
    own = replace(SECOND, manifest_sha256=model.manifest["manifest_sha256"])
    assert len(own.manifest_sha256) == 64 and read_lineage(tmp_path / "model") == (FIRST, own)
    assert model.verify().passed
    assert read_lineage(pickle.loads(pickle.dumps(model)).folder) == (FIRST, own)
    assert main(["export", str(model.folder), "-o", str(tmp_path / "copy"), "--quiet"]) == 0
    assert read_lineage(tmp_path / "copy") == (FIRST, own)


TIMES = st.datetimes().map(lambda time: time.isoformat())
GENERATIONS = st.builds(
    Generation,
    manifest_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    created=TIMES,
    rows=st.integers(0, 2**63 - 1),
    period=st.none() | st.tuples(TIMES, TIMES),
    how=st.sampled_from(["trained", "continued", "refitted"]),
    verdict=st.sampled_from(["promote", "keep", "refuse", None]),
    reasons=st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(tuple),
)


@given(generations=st.lists(GENERATIONS, min_size=1, max_size=4))
@examples(60)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, generations: list[Generation]
) -> None:
    writer = ArtifactWriter(tmp_path_factory.mktemp("written"))
    write_lineage(writer, generations)
    writer.finish({})
    reader = ArtifactReader(writer.folder)
    own = replace(generations[-1], manifest_sha256=reader.manifest["manifest_sha256"])
    assert read_lineage(reader) == (*generations[:-1], own)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda values: values.clear(), "expected the model itself as the last generation; found none"),
        (lambda values: values[0].update(manifest_sha256=""), "expected 64 hexadecimal digits; found ''"),
        (lambda values: values[1].update(manifest_sha256="ab" * 32), "expected no hash of the model itself"),
        (lambda values: values[0].update(period=["2026-01-01"]), "expected 2 times; found 1"),
        (lambda values: values[0].update(created="yesterday"), "'yesterday'"),
        (lambda values: values[1].update(verdict="maybe"), "expected one of keep, promote, refuse or null"),
        (lambda values: values[1].update(rows=-1), "expected an integer in [0, "),
        (lambda values: values[1].pop("how"), "the entry is missing"),
    ],
)
def test_a_damaged_lineage_is_refused(tmp_path: Path, change: Callable[[Any], object], problem: str) -> None:
    values = [generation.to_json() for generation in (FIRST, SECOND)]
    change(values)
    writer = ArtifactWriter(tmp_path / "model")
    writer.file(NAME).write_text(json.dumps(values))
    writer.finish({})
    with pytest.raises(ArtifactError) as caught:
        read_lineage(ArtifactReader(writer.folder))
    assert f"{NAME} is invalid" in str(caught.value) and problem in str(caught.value)
    assert caught.value.where == str(tmp_path / "model" / NAME)
