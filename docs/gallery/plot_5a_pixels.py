"""
Can a pipeline for tables read images?
======================================

Small ones: in scikit-learn's digits, each of the 8 × 8 pixels is a column. A network for tables learns these columns,
and a convolutional network gets the same matrix as pictures, without a copy. For photographs, use a library for images.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import gpupipe as gp

frame = load_digits(as_frame=True).frame.astype({"target": str})
print(frame.shape, *frame.columns[:3])

# %%
# Pixels as columns
# -----------------
#
# ``clip`` states the range of a pixel. Scaled column by column, a row would not be a picture any more.

settings = {
    "target": "target",
    "split": {"test_size": 0.25, "stratify": True},
    "features": [{"clip": {"columns": "pixel_*", "lower": 0, "upper": 16}}],
    "seed": 7,
}
folder = TemporaryDirectory()
mlp = gp.Pipeline(frame, models=[{"mlp": {"epochs": 12}}], evaluate={"importance": False}, **settings)
run = mlp.run(Path(folder.name) / "run", quiet=True)
print(f"accuracy of mlp on test rows: {run.metrics['accuracy']:.3f}")

# %%
# The same matrix as pictures
# ---------------------------
#
# ``tensors`` has the columns in their order, so that a row becomes a picture by ``view``, which copies nothing. The
# split is the same.

train, test = gp.Pipeline(frame, **settings).tensors("torch")
print(train.features.shape, train.features.dtype, train.metadata.names[:3])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(32 * 4 * 4, 10),
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        pictures = features.view(-1, 1, 8, 8)
        return self.layers(pictures / 16)


torch.manual_seed(7)
net = Net().to(train.features.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
batches = gp.Batches(train, batch_size=64, seed=7)
for _ in range(24):
    for batch in batches:
        loss = nn.functional.cross_entropy(net(batch.features), batch.target.long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
net.eval()
with torch.inference_mode():
    predicted = net(test.features).argmax(dim=1)
print(f"accuracy of convolutions on test rows: {(predicted == test.target).float().mean():.3f}")

# %%
# What the convolutions get wrong
# -------------------------------

wrong = torch.nonzero(predicted != test.target)[:6, 0]
fig, axes = plt.subplots(1, 6, figsize=(7, 1.8), layout="constrained")
for axis, row in zip(axes, wrong, strict=False):
    axis.imshow(test.features[row].view(8, 8).cpu(), cmap="gray_r")
    axis.set_title(f"{test.target[row]}, not {predicted[row]}")
for axis in axes:
    axis.set_axis_off()
folder.cleanup()
