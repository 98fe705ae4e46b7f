"""``gpupipe gpus`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupipe.plan.gpu_choice.gpu_specs import load_gpus
from gpupipe.plan.gpu_choice.prices import read_prices


def test_the_table_lists_every_gpu(gpupipe, monkeypatch):
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    done = gpupipe("gpus")
    assert done.returncode == 0 and all(gpu.key in done.stdout for gpu in load_gpus().gpus)
    (t4,) = json.loads(gpupipe("gpus", "--gpu", "t4", "--json").stdout)["gpus"]
    assert (t4["memory_gb"], t4["capability"], t4["tf32"]) == (16, "7.5", None)


def test_a_configuration_with_prices(gpupipe, tmp_path):
    churn = tmp_path / "churn.yaml"
    churn.write_text("source: {generate: churn, rows: 2000, target: Churn, drop: [customerID]}\nmodels: [xgboost]\n")
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: USD\nl4: 0.8\ncpu: 0.1\n")
    arguments = ("gpus", churn, "--prices", prices, "--gpu", "l4")
    document = json.loads(gpupipe(*arguments, "--json").stdout)
    (l4,) = document["gpus"]
    names = [stage["name"] for stage in document["cpu"]["stages"]]
    assert names == [stage["name"] for stage in l4["stages"]] and "features" in names
    assert l4["fits"] and 0 < l4["seconds"]["low"] < l4["seconds"]["high"]
    assert l4["cost"]["low"] == pytest.approx(0.8 * l4["seconds"]["low"] / 3600)
    assert document["cpu"]["cost"]["high"] == pytest.approx(0.1 * document["cpu"]["seconds"]["high"] / 3600)
    done = gpupipe(*arguments)
    assert done.returncode == 0 and "cheaper from rows" in done.stdout and "with the GPU" in done.stdout
    assert not list(churn.parent.glob("runs*"))


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ("rtx-40: 1", "did you mean 'rtx-"),
        ("l4: cheap", "expected a number of at least 0, got 'cheap'"),
        ("l4: -1", "got -1"),
        ("l4: .inf", "got inf"),
        ("l4: true", "got True"),
        ("currency: 3", "expected text, got 3"),
        ("[l4]", "expected a mapping of prices"),
        ("l4: {", "not valid YAML"),
        (None, "cannot read the prices"),
    ],
)
def test_wrong_prices_are_refused_before_the_tables_are_read(gpupipe, churn, tmp_path, prices, expected):
    file = tmp_path / "prices.yaml"
    if prices is not None:
        file.write_text(prices)
    done = gpupipe("gpus", churn, "--prices", file)
    assert done.returncode == 2 and expected in done.stderr and str(file) in done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_the_prices_of_the_guide_are_valid(tmp_path):
    guide = (Path(__file__).parents[2] / "docs/guide/gpu.md").read_text()
    file = tmp_path / "prices.yaml"
    file.write_text(guide.partition("### Cost")[2].split("```")[1].removeprefix("text"))
    prices = read_prices(file, [gpu.key for gpu in load_gpus().gpus])
    assert (prices.currency, prices.cpu, prices.kwh, set(prices.gpus)) == ("USD", 0.1, 0.3, {"l4", "h100-sxm"})


def test_an_unknown_gpu_and_an_option_without_a_configuration(gpupipe, churn):
    done = gpupipe("gpus", churn, "--gpu", "h100")
    assert done.returncode == 2 and "did you mean 'h100-sxm'?" in done.stderr
    done = gpupipe("gpus", "--set", "seed=1")
    assert done.returncode == 2 and "--set needs a configuration" in done.stderr
