"""An image classifier that hands doubtful images to a person: convolutions with a posterior, on 8 x 8 digits.

Ends in out/examples/image_classifier.png. In miniature: python examples/image_classifier.py --quick
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import nn

import whvi
from whvi.inference import SVI, OneCycle
from whvi.likelihoods import Categorical
from whvi.nn import WHVIConv2d, WHVILinear
from whvi.predictive import ece, selective_curve
from whvi.predictive.plots import plot_selective

STEPS, SAMPLES = (2, 2) if "--quick" in sys.argv else (800, 32)

torch.manual_seed(0)
digits = load_digits()
order = torch.randperm(len(digits.target))
x = torch.tensor(digits.images, dtype=torch.float32)[order].unsqueeze(1) / 16
y = torch.tensor(digits.target)[order]
train, test = slice(0, 1200), slice(1200, None)

model = nn.Sequential(
    WHVIConv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    WHVIConv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), WHVILinear(512, 10),
)  # fmt: skip
result = whvi.fit(
    model, Categorical(10), (x[train], y[train]), steps=STEPS, algorithm=SVI(2e-2, schedule=OneCycle(STEPS)), seed=0
)
prediction = result.predict(x[test], samples=SAMPLES, seed=0)
wrong = (prediction.mean.argmax(1) != y[test]).double()
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, error {wrong.mean():.1%}, "
      f"MNLL {prediction.mnll(y[test]):.3f}, ECE {ece(prediction.mean, y[test]):.3f}")  # fmt: skip

# Left: error among the images that are kept, the surest first. Right: those that a person should see.
figure = Figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subfigures(1, 2)
axis = plot_selective(selective_curve(prediction.entropy, wrong), axis=left.subplots())
axis.set(xlabel="images that the model keeps, %", ylabel="error among them", title="the surest images first")
right.suptitle("the twelve that it doubts most", fontsize=10)
doubtful = prediction.entropy.argsort(descending=True)[:12]
for axis, row in zip(right.subplots(3, 4).flat, doubtful.tolist(), strict=True):
    first, second = prediction.mean[row].topk(2).indices.tolist()
    axis.imshow(x[test][row, 0].numpy(), cmap="gray_r")
    axis.set_title(f"{first} or {second}? It is {y[test][row]}", fontsize=8)
    axis.axis("off")

out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "image_classifier.png", dpi=110)
print(f"picture: {out / 'image_classifier.png'}")
