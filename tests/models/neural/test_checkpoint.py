"""Resuming an interrupted training: the same bytes as without the interruption."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import LimitError
from gpupipe.models import FitContext, Resources, fit
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.settings import Mlp

KINDS = ["mlp", "tabm", "ft_transformer"]


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
    return Checkpoint(folder / "name.pt", resume)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "fp16"])
def test_an_interrupted_training_resumes_to_the_same_bytes(small, tmp_path: Path, kind: str, precision: str) -> None:
    small = small.but(kind=kind, dropout=0.2, epochs=5, precision=precision)
    whole, progress = small.run()
    _interrupted_at(19, lambda: small.run(checkpoint=_checkpoint(tmp_path)))  # of 8 steps an epoch
    resumed, on = small.run(checkpoint=_checkpoint(tmp_path))
    assert on.resumed == 2 and on.epochs == progress.epochs and on.best == progress.best
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in whole.state_dict().items())
    done, over = small.run(checkpoint=_checkpoint(tmp_path))
    assert over.resumed == 5
    assert torch.equal(done.head.weight, whole.head.weight)


def test_a_resumed_training_keeps_the_micro_batch(small, tmp_path: Path, short_of_memory) -> None:
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
        for damaged in (good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], good[:at]):
            path.write_bytes(damaged)
            checkpoint = _checkpoint(tmp_path)
            assert checkpoint.load() is None and "name.pt" in checkpoint.damage
    path.write_bytes(good)
    assert _checkpoint(tmp_path).load() is not None
    assert _checkpoint(tmp_path, resume=False).load() is None


def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_it(small, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LimitError, match="file"):
        small.but(epochs=1).run(checkpoint=_checkpoint(tmp_path / "file"))


def test_a_folder_that_another_run_has_cleared_is_made_again(tmp_path: Path) -> None:
    mine = Checkpoint(tmp_path / "c" / "a.pt", resume=True)
    mine.save({"x": 1})
    shutil.rmtree(tmp_path / "c")
    mine.save({"x": 3})
    assert mine.load() == {"x": 3}


class Rows:
    """Rows of a run that leaves checkpoints."""

    def __init__(self, folder: Path) -> None:
        draw = np.random.default_rng(0)
        self.folder = folder
        self.X = np.asfortranarray(draw.normal(size=(200, 3)), np.float32)
        self.y = (self.X[:, 0] > 0).astype(float)

    def fit(self, resume: bool) -> str:
        """Train and return the notes."""
        resources = Resources(1, self.folder / "state.pt", resume)
        context = FitContext(CpuBackend(), "binary", 7, 2, {}, ["a", "b", "c"], resources=resources)
        model = Mlp(epochs=4, batch_size=85, width=8, depth=1)
        return "; ".join(fit(model, self.X, self.y, context).notes)


def test_a_resumed_training_is_noted(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    assert "resume" not in rows.fit(resume=False)  # to the end: all 4 epochs are kept
    assert "resumed after epoch 4" in rows.fit(resume=True)
    path, refit = tmp_path / "state.pt", tmp_path / "state.refit.pt"
    assert set(tmp_path.iterdir()) == {path, refit}
    path.write_bytes(path.read_bytes()[:-1])
    assert f"the checkpoint is corrupt: {path}" in rows.fit(resume=True)
    refit.write_bytes(refit.read_bytes()[:-1])
    assert f"trained again from scratch, since the checkpoint is corrupt: {refit}" in rows.fit(resume=True)
    path.unlink()
    assert "started from scratch: no checkpoint" in rows.fit(resume=True)


def test_a_resumed_training_keeps_the_learning_rate_schedule(small, tmp_path: Path) -> None:
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
    noise = small.on(rows=replace(small.rows, target=flip)).but(epochs=40, learning_rate=3e-2, patience=3)
    _, whole = noise.run()
    _interrupted_at(8 * (whole.best + 2) + 1, lambda: noise.run(checkpoint=_checkpoint(tmp_path)))
    network, progress = noise.run(checkpoint=_checkpoint(tmp_path))
    assert progress.resumed == whole.best + 2 and progress.epochs == whole.epochs
    assert progress.best == whole.best
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in whole.weights.items())
