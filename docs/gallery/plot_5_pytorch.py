"""
How do features reach my PyTorch loop without a copy?
=====================================================

``Pipeline.tensors`` fits the features on the training rows and hands the matrix to PyTorch through DLPack: the same
address, strides and device. On a GPU the matrix never leaves device memory.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import gpupipe as gp

# %%
# Categories as codes to embed
# ----------------------------
#
# The view ``embedding`` has scaled numbers in ``features``, and one column of codes for each category in ``ids``.
# Codes 0, 1 and 2 are null, unseen and rare, in training and in prediction.

pipe = gp.Pipeline(
    {"generate": "churn", "rows": 20_000},
    target="Churn",
    positive="Yes",
    drop="customerID",
    split={"test_size": 0.25, "stratify": True},
    seed=7,
)
train, test = pipe.tensors("torch", view="embedding")
print(train.features.shape, train.features.dtype, train.features.device, train.ids.shape, train.ids.dtype)
for name, size in zip(train.metadata.id_names, train.metadata.cardinalities, strict=True):
    print(f"{name}: {size} codes")

# %%
# Proof: a tensor made from an array has the address of that array.

X, y = pipe.features()
print(gp.to_torch(X).data_ptr() == X.__array_interface__["data"][0])

# %%
# A network, and the loop
# -----------------------
#
# ``Batches`` shuffles each epoch with a seed and slices on the device that holds the rows, without worker processes.


class Net(nn.Module):
    def __init__(self, n_numbers: int, cardinalities: list[int], size: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, size) for n in cardinalities)
        self.layers = nn.Sequential(nn.Linear(n_numbers + size * len(cardinalities), 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, batch: gp.TensorBatch) -> torch.Tensor:
        vectors = [table(batch.ids[:, j]) for j, table in enumerate(self.tables)]
        return self.layers(torch.cat([batch.features, *vectors], dim=1))[:, 0]


torch.manual_seed(7)
net = Net(train.features.shape[1], train.metadata.cardinalities).to(train.features.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
batches = gp.Batches(train, batch_size=512, seed=7)
history = []
for _ in range(5):
    net.train()
    for batch in batches:
        loss = nn.functional.binary_cross_entropy_with_logits(net(batch), batch.target.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.inference_mode():
        history.append([roc_auc_score(part.target.cpu(), net(part).cpu()) for part in (train, test)])
print(f"ROC AUC on test rows after {len(history)} epochs: {history[-1][1]:.3f}")

# %%

fig, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.plot(range(1, len(history) + 1), history, marker="o", label=["training rows", "test rows"])
axis.set(xlabel="epoch", ylabel="ROC AUC")
axis.legend()

# %%
# ``models: [mlp]`` trains such a network as part of a run, with early stopping, checkpoints and a portable model.
