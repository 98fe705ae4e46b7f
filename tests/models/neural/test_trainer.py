"""Steps, epochs and the end of a training, against plain PyTorch and its schedules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gpupipe.errors import ConfigError, LimitError
from gpupipe.models.context import TimedSafePoint
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.modules import Network

KINDS = ["mlp", "tabm", "ft_transformer"]
ROOT = Path(__file__).parents[3]


def _numbers_in_bins(numbers, edges):
    """Reference encoding, one value and one bin at a time."""
    shares = torch.zeros(len(numbers), numbers.shape[1], len(edges) - 1, dtype=torch.float64)
    for i, row in enumerate(numbers.tolist()):
        for j, value in enumerate(row):
            for b in range(len(edges) - 1):
                shares[i, j, b] = min(1.0, max(0.0, (value - edges[b]) / (edges[b + 1] - edges[b])))
    return shares


@pytest.mark.parametrize("weighted", [False, True])
def test_one_step_matches_plain_pytorch(small, weighted: bool) -> None:
    weight = torch.rand(300, generator=torch.Generator().manual_seed(0)) if weighted else None
    small = small.on(rows=replace(small.rows, weight=weight))
    clip, rate, decay = 0.05, 0.01, 0.1
    one = small.but(batch_size=230, epochs=1, gradient_clip=clip, learning_rate=rate, weight_decay=decay)
    trained, progress = one.run()

    torch.manual_seed(7)
    begun = {
        name: value.double().requires_grad_() for name, value in Network(one.problem.architecture).named_parameters()
    }
    rows, n = one.rows, 230
    shares = _numbers_in_bins(rows.features[:n], [-2.0, -1.0, 0.0, 1.0, 2.0])
    vectors = torch.einsum("njb,jbs->njs", shares, begun["numbers.weight"]) + begun["numbers.bias"][:, 0]
    table = begun["categories.table.weight"]
    tokens = torch.cat([torch.relu(vectors), table[rows.ids[:n].long() + torch.tensor([0, 4])]], dim=1).flatten(1)
    inner = torch.relu(tokens @ begun["body.1.weight"].T + begun["body.1.bias"])
    score = (inner @ begun["head.weight"].T + begun["head.bias"])[:, 0]
    losses = F.softplus(score) - score * rows.target[:n]
    weights = torch.ones(n) if weight is None else weight[:n]
    loss = (losses * weights).sum() / weights.sum()
    gradients = torch.autograd.grad(loss, list(begun.values()))
    norm = torch.stack([(g**2).sum() for g in gradients]).sum().sqrt()
    assert norm > clip  # otherwise the step would not show that gradients are clipped
    for (name, value), gradient in zip(begun.items(), gradients, strict=True):
        pulled = decay if name in ("body.1.weight", "head.weight") else 0.0
        g = gradient * clip / norm
        # In Adam's first step the corrected moments are the gradient and its square.
        expected = value * (1 - rate * pulled) - rate * g / (g.abs() + 1e-8)
        torch.testing.assert_close(trained.get_parameter(name).double(), expected, atol=2e-4, rtol=0)
    assert progress.epochs[0].training == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_weight_2_is_that_row_twice(small, curve, kind: str) -> None:
    weight = torch.ones(300)
    weight[:100] = 2.0
    weighted = small.on(rows=replace(small.rows, weight=weight)).but(kind=kind, batch_size=230, epochs=10)
    twice = small.on(training=torch.cat([small.training, torch.arange(100)])).but(kind=kind, batch_size=330, epochs=10)
    assert curve(weighted.run()[1]) == pytest.approx(curve(twice.run()[1]), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_where_memory_is_short_parts_of_a_batch_teach_the_same(small, curve, kind: str, short_of_memory) -> None:
    small = small.but(kind=kind)
    whole, progress = small.run()
    assert progress.micro_batch == 32
    with short_of_memory(10):
        parts, in_parts = small.run()
    assert in_parts.micro_batch == 8
    assert curve(in_parts) == pytest.approx(curve(progress), rel=1e-4)
    torch.testing.assert_close(parts.state_dict(), whole.state_dict(), atol=1e-3, rtol=1e-2)


def test_memory_that_becomes_short_later_does_not_end_the_training(small, curve, short_of_memory) -> None:
    whole = curve(small.run()[1])
    with short_of_memory(20, after=11):
        _, progress = small.run()
    assert progress.micro_batch == 16
    assert curve(progress) == pytest.approx(whole, rel=1e-4)


def test_what_does_not_fit_row_by_row_is_the_error_of_pytorch(small, short_of_memory) -> None:
    with short_of_memory(0), pytest.raises(torch.OutOfMemoryError):
        small.run()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of address space is Linux's")
def test_a_real_limit_of_memory_is_survived() -> None:
    script = Path(__file__).with_name("short_of_memory.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    free, limited = (line.split() for line in done.stdout.splitlines())
    assert int(free[0]) == 1024 and int(limited[0]) < 1024
    assert float(limited[1]) == pytest.approx(float(free[1]), rel=1e-3)


def _rates(small) -> list[float]:
    found: list[float] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: found.append(optimizer.param_groups[0]["lr"]))
    try:
        small.run()
    finally:
        hook.remove()
    return found


def _expected(schedule: type, n: int, **options) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-2)
    made, found = schedule(optimizer, **options), []
    for _ in range(n):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        made.step()
    return found


def test_the_learning_rate_rises_along_a_line_and_falls_along_a_cosine(small) -> None:
    found = _rates(small.but(epochs=5, warmup=0.25))  # 8 steps an epoch
    assert found[:10] == pytest.approx(_expected(LinearLR, 10, start_factor=0.1, total_iters=9))
    assert found[10:] == pytest.approx(_expected(CosineAnnealingLR, 30, T_max=30))
    constant = _rates(small.but(epochs=2, warmup=0.0, schedule="constant"))
    assert constant == [1e-2] * 16


def test_the_weights_of_the_best_epoch_are_kept_and_patience_ends_the_training(small) -> None:
    flip = torch.randint(0, 2, (300,), generator=torch.Generator().manual_seed(1))  # there is nothing to learn
    noise = small.on(rows=replace(small.rows, target=flip)).but(epochs=40, learning_rate=3e-2)
    network, progress = noise.but(patience=3).run()
    losses = [epoch.validation for epoch in progress.epochs]
    assert progress.best == losses.index(min(losses)) and len(losses) == progress.best + 1 + 3 < 40
    rows = noise.rows
    with torch.no_grad():
        score = network(rows.features[230:], rows.ids[230:])[:, 0]
    assert F.binary_cross_entropy_with_logits(score, flip[230:].float()).item() == pytest.approx(min(losses), rel=1e-5)
    assert len(noise.run()[1].epochs) == 40


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_as_well_as_float32(small, precision: str) -> None:
    full, half = small.but(epochs=8).run()[1], small.but(epochs=8, precision=precision).run()[1]
    assert half.epochs[-1].validation == pytest.approx(full.epochs[-1].validation, abs=0.03)
    assert half.epochs[-1].validation < half.epochs[0].validation


def test_a_training_that_diverges_is_an_error_and_no_model(small) -> None:
    with pytest.raises(ConfigError, match="nan"):
        small.but(learning_rate=1e30, gradient_clip=None).run()


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_bytes_and_another_seed_others(small, kind: str) -> None:
    small = small.but(kind=kind, dropout=0.3)
    one, again, other = (found.run()[0].state_dict() for found in (small, small, small.but(seed=8)))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_every_epoch_but_the_last_ends_with_a_checkpoint_and_a_safe_point(small, tmp_path: Path) -> None:
    kept = tmp_path / "name.pt"
    points: list[tuple[str, bool]] = []
    small.run(None, Checkpoint(kept), lambda where: points.append((where, kept.is_file())))
    assert points == [("after epoch 1", True), ("after epoch 2", True)]

    def stop(where: str) -> None:
        raise LimitError(where)

    with pytest.raises(LimitError, match="after epoch 1"):
        small.run(safe_point=stop)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, where it imports its compiler
def test_without_a_compiler_compile_is_a_clear_error(small, monkeypatch, tmp_path) -> None:
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with config.patch({"cpp.cxx": ("/no/such/compiler",)}), pytest.raises(ConfigError, match="C\\+\\+ compiler"):
        small.but(compile=True, epochs=1).run()


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_network_learns_the_same(small, curve, monkeypatch, tmp_path) -> None:
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    even = small.on(training=torch.arange(224)).but(epochs=2)  # batches of one shape are one compilation
    with config.patch(compile_threads=1):
        compiled = even.but(compile=True).run()[1]
    assert curve(compiled) == pytest.approx(curve(even.run()[1]), rel=1e-4)


def test_members_are_trained_on_their_own_losses_and_evaluated_by_their_mean(small) -> None:
    network, progress = small.but(kind="tabm", epochs=1, learning_rate=1e-30, weight_decay=0.0).run()

    def score_and_target(rows):
        with torch.no_grad():
            score = network(small.rows.features[rows], small.rows.ids[rows])[:, :, 0].double()
        return score, small.rows.target[rows].double()

    score, target = score_and_target(small.training)
    own = F.binary_cross_entropy_with_logits(score, target[:, None].expand_as(score))
    assert progress.epochs[0].training == pytest.approx(own.item(), rel=1e-5)
    score, target = score_and_target(small.validation)
    of_mean = F.binary_cross_entropy(torch.sigmoid(score).mean(dim=1), target)
    assert progress.epochs[0].validation == pytest.approx(of_mean.item(), rel=1e-5)


class _FiveSeconds(TimedSafePoint):
    """A deadline five seconds after the start, by a clock that ticks once an epoch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = -1
        monkeypatch.setattr("gpupipe.models.neural.trainer.time", SimpleNamespace(perf_counter=self.tick))

    def tick(self) -> int:
        self.now += 1
        return self.now

    @property
    def seconds_left(self) -> float:
        return 5.0 - self.now


@pytest.mark.parametrize(("kind", "schedule"), [("mlp", "cosine"), ("realmlp", "coslog4")])
def test_the_schedules_end_with_the_last_epoch_that_fits(small, monkeypatch, kind: str, schedule: str) -> None:
    rates, decays = [], []

    def look(optimizer, args, kwargs):
        group = optimizer.param_groups[0]
        rates.append(group["lr"] / group["rate_factor"])
        decays.append(max(each["weight_decay"] for each in optimizer.param_groups))

    hook = register_optimizer_step_pre_hook(look)
    try:
        long = small.but(kind=kind, schedule=schedule, epochs=64, learning_rate=1e-2, warmup=0.0)
        _, progress = long.run(safe_point=_FiveSeconds(monkeypatch))
    finally:
        hook.remove()
    assert len(progress.epochs) == 5
    each = len(rates) // 5
    assert max(rates[each:]) > 0.5 * 1e-2 and rates[-1] < 0.05 * 1e-2
    assert (decays[-1] < 0.05 * max(decays)) == (kind == "realmlp")


def test_scales_biases_and_weights_of_realmlp_have_their_factors(small) -> None:
    groups = {}

    def look(optimizer, args, kwargs):
        groups.update({id(p): each for each in optimizer.param_groups for p in each["params"]})
        assert optimizer.defaults["betas"] == (0.9, 0.95)

    hook = register_optimizer_step_pre_hook(look)
    try:
        network, _ = small.but(kind="realmlp", epochs=1).run()
    finally:
        hook.remove()
    found = {
        name: (groups[id(p)]["rate_factor"], groups[id(p)]["decay_factor"]) for name, p in network.named_parameters()
    }
    assert found["body.1.weight"] == (6.0, 6.0)  # the scale of the inputs
    assert found["body.2.weight"] == found["head.weight"] == found["categories.table.weight"] == (1.0, 1.0)
    assert found["body.2.bias"] == found["head.bias"] == (0.1, 0.0)
    assert found["body.3.weight"] == found["numbers.frequency"] == (0.1, 0.1)
