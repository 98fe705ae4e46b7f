"""The perceptrons against the reference implementations of RealMLP and TabM, and networks of format 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.embeddings import NumberEmbedding, PeriodicEmbedding
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.perceptron import NtkLinear
from gpupipe.tasks import Task
from tests.models.folder_files import load_fitted
from tests.models.networks import given

FOLDER = Path(__file__).parent
NTK: dict[str, Any] = {"parametrization": "ntk", "number_encoding": "periodic", "activation": "selu"}


@pytest.fixture(scope="module")
def stored() -> dict[str, torch.Tensor]:
    """Return the arrays that `tests.models.neural.reference_networks` wrote."""
    with np.load(FOLDER / "reference_networks.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def copy_weights(network: Network, weights: dict[str, Any]) -> None:
    missing = network.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys and set(missing.missing_keys) <= {"numbers.lower", "numbers.width"}


def test_members_are_those_of_the_package_tabm(stored: dict[str, torch.Tensor]) -> None:
    w = {name.removeprefix("tabm/"): values for name, values in stored.items()}
    network = Network(Architecture("tabm", 3, (), 3, n_bins=5, embedding_size=6, depth=2, width=10, members=4))
    assert isinstance(network.numbers, NumberEmbedding)
    network.numbers.set_edges([w[f"bins/{j}"] for j in range(3)])
    layers = {"body.1": "backbone.affine", "body.2": "backbone.blocks.0.0", "body.5": "backbone.blocks.1.0"}
    weights = {f"{ours}.weight": w[f"{theirs}.weight"] for ours, theirs in layers.items()}
    weights |= {f"{ours}.bias": w[f"{theirs}.bias"] for ours, theirs in layers.items() if ours != "body.1"}
    weights |= {"numbers.weight": w["embed.linear.weight"], "numbers.bias": w["embed.linear.bias"][:, None]}
    copy_weights(network, weights | {"head.weight": w["head.weight"], "head.bias": w["head.bias"]})
    with torch.no_grad():
        torch.testing.assert_close(network.eval()(stored["X"], None), w["members"], rtol=1e-5, atol=1e-5)
        probability = Served(network, "multiclass").eval()(stored["X"]).softmax(dim=1)
    torch.testing.assert_close(probability, w["probability"], rtol=1e-5, atol=1e-6)


def test_scores_are_those_of_pytabkits_realmlp(stored: dict[str, torch.Tensor]) -> None:
    w = {name.removeprefix("realmlp/"): values for name, values in stored.items()}
    network = Network(Architecture("mlp", 3, (), 3, n_bins=1, embedding_size=6, depth=2, width=10, **NTK))
    # The reference has the cosines of all numbers first, then the numbers.
    order = torch.cat([torch.arange(15).view(3, 5), torch.arange(15, 18).view(3, 1)], dim=1).flatten()
    weights = {
        "numbers.center": w["x_median"][0], "numbers.scale": w["x_scale"][0],
        "numbers.frequency": 2.0 * torch.pi * w["plr_weight_1"], "numbers.phase": w["plr_bias_1"],
        "numbers.weight": w["plr_weight_2"], "numbers.bias": w["plr_bias_2"],
        "body.1.weight": w["mlp.0.scale"][0, order], "body.2.weight": w["mlp.1.weight"][order].T,
    }  # fmt: skip
    rows = {
        "body.2.bias": "mlp.2.bias", "body.3.weight": "mlp.3.weight", "body.5.bias": "mlp.6.bias",
        "body.6.weight": "mlp.7.weight", "head.bias": "mlp.10.bias",
    }  # fmt: skip
    weights |= {ours: w[theirs][0] for ours, theirs in rows.items()}
    weights |= {"body.5.weight": w["mlp.5.weight"].T, "head.weight": w["mlp.9.weight"].T}
    copy_weights(network, weights)
    with torch.no_grad():
        torch.testing.assert_close(network.eval()(stored["X"], None), w["score"], rtol=1e-5, atol=1e-5)


def test_layers_are_initialized_to_unit_variance_and_bend_inside_the_data() -> None:
    torch.manual_seed(1)
    network = Network(Architecture("mlp", 4, (5,), 3, n_bins=1, embedding_size=8, depth=2, width=64, **NTK)).eval()
    numbers, ids = 50.0 + 10.0 * torch.randn(400, 4), torch.randint(0, 5, (400, 1), dtype=torch.int32)
    assert isinstance(network.numbers, PeriodicEmbedding) and isinstance(network.body, torch.nn.Sequential)
    network.numbers.learn_columns(numbers)
    network.initialize(numbers, ids)
    with torch.no_grad():
        x = network.embed(numbers, ids)
        for layer in [*network.body, network.head]:
            x = layer(x)
            if isinstance(layer, NtkLinear):
                torch.testing.assert_close(x.std(dim=0, correction=0), torch.ones(x.shape[1]))
                assert (x.min(dim=0).values < 0).all() and (x.max(dim=0).values > 0).all()


@pytest.mark.parametrize(("kind", "task"), [("mlp", "multiclass"), ("resnet", "regression")])
def test_networks_of_format_1_predict_the_same_bits(kind: str, task: Task) -> None:
    """The files were written by the commit before format 2; see the names in `tests.models.networks`."""
    folder = FOLDER / "format_1" / kind
    n_classes = 3 if task == "multiclass" else 0
    names = [f"column {j}" for j in range(5)]
    description = {"library": "torch", "task": task, "files": ["estimator.safetensors", "architecture.json"]}
    classes = {"feature_names": names, "n_classes": n_classes, "classes": list(range(n_classes))}
    model = load_fitted(folder, description | classes)
    with np.load(folder / "predictions.npz") as expected:
        np.testing.assert_array_equal(given(model, expected["X"]), expected["predicted"])
