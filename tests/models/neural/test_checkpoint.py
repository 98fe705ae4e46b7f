"""A training that was interrupted goes on to the very bytes of one that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gpupipe.backends.cpu import CpuBackend
from gpupipe.errors import DataError, LimitError
from gpupipe.models import Checkpoints, FitContext, Resources, fit
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.settings import Mlp

KINDS = ["mlp", "resnet", "ft_transformer"]


def _interrupted_at(step: int, run: Any) -> None:
    """Train until the weights are about to move for this time, counted from 1."""
    steps = 0

    def interrupt(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            raise KeyboardInterrupt

    hook = register_optimizer_step_pre_hook(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        hook.remove()


def _checkpoint(folder: Path, resume: bool = True) -> Checkpoint:
    return Checkpoint(Checkpoints(folder, resume), "name")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "fp16"])
def test_an_interrupted_training_goes_on_to_the_same_bytes(small, tmp_path: Path, kind: str, precision: str) -> None:
    small = small.but(kind=kind, dropout=0.2, epochs=5, precision=precision)
    whole, progress = small.run()
    _interrupted_at(19, lambda: small.run(checkpoint=_checkpoint(tmp_path)))  # of 8 steps an epoch
    resumed, on = small.run(checkpoint=_checkpoint(tmp_path))
    assert on.resumed == 2 and on.epochs == progress.epochs and on.best == progress.best
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in whole.state_dict().items())
    done, over = small.run(checkpoint=_checkpoint(tmp_path))
    assert over.resumed == 5
    assert torch.equal(done.head.weight, whole.head.weight)


def test_where_memory_was_short_it_goes_on_with_as_many_rows_at_once(small, tmp_path: Path, short_of_memory) -> None:
    small = small.but(kind="mlp", dropout=0.2)
    with short_of_memory(20):
        whole, _ = small.run()
        _interrupted_at(12, lambda: small.run(checkpoint=_checkpoint(tmp_path)))
    resumed, progress = small.run(checkpoint=_checkpoint(tmp_path))
    assert progress.micro_batch == 16
    assert torch.equal(resumed.head.weight, whole.head.weight)


def test_every_byte_that_is_changed_or_missing_is_noticed(small, tmp_path: Path) -> None:
    small.but(epochs=1).run(checkpoint=_checkpoint(tmp_path))
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    draw = np.random.default_rng(0)
    for at in [0, 31, 32, len(good) - 1, *draw.integers(0, len(good), 20).tolist()]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(DataError, match=r"name\.pt"):
            _checkpoint(tmp_path).load()
        path.write_bytes(good[:at])
        with pytest.raises(DataError, match=r"name\.pt"):
            _checkpoint(tmp_path).load()
    path.write_bytes(good)
    assert _checkpoint(tmp_path).load() is not None
    assert _checkpoint(tmp_path, resume=False).load() is None


def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_it(small, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LimitError, match="file"):
        small.but(epochs=1).run(checkpoint=_checkpoint(tmp_path / "file"))


def test_runs_of_the_same_training_may_clear_each_others_folder(tmp_path: Path) -> None:
    mine, other = Checkpoints(tmp_path / "c"), Checkpoints(tmp_path / "c")
    Checkpoint(mine, "a").save({"x": 1})
    Checkpoint(mine, "b").save({"x": 2})
    (tmp_path / "c" / "a.99999999.tmp").write_bytes(b"half")  # a kill has left it
    other.file("a")
    other.clear()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["b.pt"]
    mine.clear()
    mine.clear()
    assert not list(tmp_path.iterdir())
    Checkpoint(mine, "a").save({"x": 3})
    assert _checkpoint_named("a", tmp_path / "c") == {"x": 3}


def _checkpoint_named(name: str, folder: Path) -> Any:
    return Checkpoint(Checkpoints(folder, resume=True), name).load()


class Rows:
    """Rows of a run that leaves checkpoints."""

    def __init__(self, folder: Path) -> None:
        draw = np.random.default_rng(0)
        self.folder = folder
        self.X = np.asfortranarray(draw.normal(size=(200, 3)), np.float32)
        self.y = (self.X[:, 0] > 0).astype(float)

    def fit(self, resume: bool, seed: int = 7, weight: Any = None, **params: Any) -> str:
        """Train, and return what is said of it."""
        resources = Resources(1, Checkpoints(self.folder, resume))
        context = FitContext(CpuBackend(), "binary", seed, 2, {}, ["a", "b", "c"], resources=resources)
        settings = {"epochs": 4, "batch_size": 85, "width": 8, "depth": 1, **params}
        return "; ".join(fit(Mlp(**settings), self.X, self.y, context, sample_weight=weight).notes)


def test_only_the_very_training_is_resumed(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    _interrupted_at(5, lambda: rows.fit(resume=False))  # of 2 steps an epoch
    assert "resume" not in rows.fit(resume=False)  # from the start, and to the end: all 4 epochs are kept
    assert "resumed after epoch 4" in rows.fit(resume=True)
    new = "nothing to resume: from the start"
    assert new in rows.fit(resume=True, seed=8)
    assert new in rows.fit(resume=True, width=9)
    assert new in rows.fit(resume=True, learning_rate=0.1)
    assert new in rows.fit(resume=True, weight=np.linspace(1, 2, 200))
    old = rows.X
    rows.X = old.copy(order="F")
    rows.X[17, 1] = np.nextafter(rows.X[17, 1], np.float32(9))
    assert new in rows.fit(resume=True)
    rows.X = np.asfortranarray(old[:, [1, 0, 2]])
    assert new in rows.fit(resume=True)
    rows.X, rows.y = old, 1 - rows.y
    assert new in rows.fit(resume=True)
    rows.y = 1 - rows.y
    assert "resumed after epoch 4" in rows.fit(resume=True)


def test_the_rate_goes_on_where_it_was(small, tmp_path: Path) -> None:
    found: list[float] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: found.append(optimizer.param_groups[0]["lr"]))
    try:
        small.run()
        whole = found.copy()
        _interrupted_at(9, lambda: small.run(checkpoint=_checkpoint(tmp_path)))
        found.clear()
        small.run(checkpoint=_checkpoint(tmp_path))
    finally:
        hook.remove()
    assert found == whole[8:]


def test_patience_counts_on(small, tmp_path: Path) -> None:
    flip = torch.randint(0, 2, (300,), generator=torch.Generator().manual_seed(1))
    noise = small.on(rows=replace(small.job.rows, target=flip)).but(epochs=40, learning_rate=3e-2, patience=3)
    _, whole = noise.run()
    _interrupted_at(8 * (whole.best + 2) + 1, lambda: noise.run(checkpoint=_checkpoint(tmp_path)))
    network, progress = noise.run(checkpoint=_checkpoint(tmp_path))
    assert progress.resumed == whole.best + 2 and progress.epochs == whole.epochs
    assert progress.best == whole.best
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in whole.weights.items())
