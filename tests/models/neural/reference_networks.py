"""Write reference_networks.npz: weights and outputs of the reference implementations of TabM and RealMLP.

Needs the packages tabm 0.0.3 with rtdl_num_embeddings 0.0.12, and pytabkit 1.8.0; made with PyTorch 2.13:

    python tests/models/neural/reference_networks.py PYTABKIT/models/realmlp/model.py

The arrays of TabM have the prefix ``tabm/``: the variant tabm-mini with piecewise-linear embeddings of version A.
Those of RealMLP have ``realmlp/``: the standalone implementation after its initialization on the rows.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

N_ROWS, N_NUMBERS, N_BINS, SIZE, WIDTH, MEMBERS, CLASSES = 40, 3, 5, 6, 10, 4, 3


def tabm_arrays(X: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return bins, weights and outputs of members of TabM-mini."""
    rtdl_num_embeddings, tabm = (importlib.import_module(name) for name in ("rtdl_num_embeddings", "tabm"))

    bins = rtdl_num_embeddings.compute_bins(X, n_bins=N_BINS)
    embed = rtdl_num_embeddings.PiecewiseLinearEmbeddings(bins, SIZE, activation=True, version="A")
    backbone = tabm.make_tabm_backbone(
        d_in=N_NUMBERS * SIZE, n_blocks=2, d_block=WIDTH, dropout=0.1, k=MEMBERS, arch_type="tabm-mini",
        start_scaling_init="normal", start_scaling_init_chunks=[SIZE] * N_NUMBERS,
    )  # fmt: skip
    head = tabm.LinearEnsemble(WIDTH, CLASSES, k=MEMBERS)
    modules = torch.nn.ModuleDict({"embed": embed, "backbone": backbone, "head": head}).eval()
    with torch.no_grad():
        for weights in modules.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.3)
        members = head(backbone(tabm.ensemble_view(embed(X).flatten(1), MEMBERS, training=False)))
    found = {f"bins/{j}": edges for j, edges in enumerate(bins)} | dict(modules.named_parameters())
    return found | {"members": members, "probability": members.softmax(dim=2).mean(dim=1)}


def realmlp_arrays(X: torch.Tensor, module: Any) -> dict[str, torch.Tensor]:
    """Return weights and logits of RealMLP, one model without categories."""
    config = module.RealMLPConfig(hidden_width=WIDTH, n_hidden_layers=2, plr_hidden_2=SIZE)
    model = module.RealMLP(N_NUMBERS, [], CLASSES, 1, config, is_classification=True).eval()
    with torch.no_grad():
        model.x_median.copy_(X.median(dim=0).values)
        model.x_scale.fill_(0.7)
        ids = torch.zeros(1, N_ROWS, 0, dtype=torch.long)
        model(X[None], ids, init=True)
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.1)
        score = model(X[None], ids)[0]
    return {name: values[0] for name, values in model.state_dict().items() if values.ndim > 1} | {"score": score}


def main() -> None:
    spec = importlib.util.spec_from_file_location("realmlp_model", sys.argv[1])
    assert spec is not None and spec.loader is not None
    module = sys.modules["realmlp_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    X = 2.0 * torch.randn(N_ROWS, N_NUMBERS)
    found = {"X": X} | {f"tabm/{name}": values for name, values in tabm_arrays(X).items()}
    found |= {f"realmlp/{name}": values for name, values in realmlp_arrays(X, module).items()}
    arrays: dict[str, Any] = {name: values.detach().numpy() for name, values in found.items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
