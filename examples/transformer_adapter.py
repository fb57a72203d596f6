"""A trained transformer keeps its function and gains a posterior: a few numbers beside frozen weights.

Ends in out/examples/transformer_adapter.txt. In miniature: python examples/transformer_adapter.py --quick
"""

import sys
from pathlib import Path

import torch
from torch import nn

import whvi
from whvi.inference import SVI, CosineDecay
from whvi.likelihoods import Categorical
from whvi.predictive import ece, error_rate

STEPS, NEW = (3, 8) if "--quick" in sys.argv else (400, 800)


# %% Does a sequence have few, some or many of eight symbols? A tenth of the labels is random.
def sequences(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = (torch.rand(count, 12) * torch.randint(3, 9, (count, 1))).long()
    y = torch.bucketize(nn.functional.one_hot(x, 8).amax(1).sum(1), torch.tensor([3, 5]))
    return x, torch.where(torch.rand(count) < 0.1, torch.randint(3, (count,)), y)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.symbols, self.head = nn.Embedding(8, 32), nn.Linear(32, 3)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.symbols(x)).mean(1))


# %% Train it as usual, on few rows and for long, so that it becomes too sure of itself
torch.manual_seed(0)
(x, y), (new_x, new_y) = sequences(400), sequences(NEW)
model, likelihood = Reader(), Categorical(3)
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
for _ in range(STEPS):
    optimizer.zero_grad()
    rows = torch.randint(len(x), (64,))
    nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()

# %% Adapt, fit the deltas, compare
lines = [f"{'':22}{'error':>8}{'MNLL':>8}{'ECE':>8}"]
for name in ("trained", "with a posterior"):
    if name == "with a posterior":
        model, report = whvi.adapt(model, terms=2)
        whvi.fit(model, likelihood, (x, y), steps=STEPS, algorithm=SVI(5e-3, schedule=CosineDecay(STEPS)), seed=0)
        print(report)
    p = whvi.predict(model, new_x, 16, likelihood=likelihood, seed=0)
    lines.append(f"{name:22}{error_rate(p.mean, new_y):8.1%}{p.mnll(new_y):8.3f}{ece(p.mean, new_y):8.3f}")
print(*lines, sep="\n")
Path("out/examples").mkdir(parents=True, exist_ok=True)
Path("out/examples/transformer_adapter.txt").write_text("\n".join(lines) + "\n")
