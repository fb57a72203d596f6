"""Ask for the labels that teach most: BALD against random choice, on tumours of scikit-learn's breast cancer data.

Ends in out/examples/active_learning.png. In miniature: python examples/active_learning.py --quick
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

import whvi
from whvi import acquire
from whvi.inference import SVI
from whvi.likelihoods import Categorical
from whvi.nn import WHVILinear

STEPS, SEEDS, ROUNDS = (2, 1, 2) if "--quick" in sys.argv else (100, 3, 9)

measured, labels = load_breast_cancer(return_X_y=True)
x, y, likelihood = torch.tensor(measured, dtype=torch.float32), torch.tensor(labels), Categorical(2)
x = (x - x.mean(0)) / x.std(0)


def learn(method: str, seed: int) -> list[float]:
    """Errors on 200 held-out rows, with 10 labels first and 5 more in each round."""
    torch.manual_seed(seed)
    test, known, pool = torch.randperm(len(x)).split([200, 10, len(x) - 210])
    model = nn.Sequential(WHVILinear(30, 64), nn.ReLU(), WHVILinear(64, 2))
    errors = []
    for _ in range(ROUNDS):
        whvi.fit(model, likelihood, (x[known], y[known]), steps=STEPS, algorithm=SVI(1e-2), seed=seed)
        guess = whvi.predict(model, x[test], likelihood=likelihood, seed=0).mean.argmax(1)
        errors.append((guess != y[test]).double().mean().item())
        known, pool = move(method, model, known, pool)
    return errors


def move(method: str, model: nn.Module, known: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """Five rows of the pool get their labels: (known, pool) afterwards."""
    chosen = torch.randperm(len(pool))[:5]
    if method != "random":
        chosen = acquire.choose(model, x[pool], 5, method, likelihood=likelihood, seed=0)
    rest = torch.ones(len(pool), dtype=torch.bool).index_fill(0, chosen, False)
    return torch.cat([known, pool[chosen]]), pool[rest]


axis = Figure(figsize=(6, 3.8), layout="constrained").subplots()
for method in ("random", "bald"):
    errors = 100 * torch.tensor([learn(method, seed) for seed in range(SEEDS)]).mean(0)
    axis.plot(range(10, 10 + 5 * ROUNDS, 5), errors, "o-", label=method)
    print(f"{method:8} error with {5 + 5 * ROUNDS} labels: {errors[-1]:.1f} %")
axis.set(xlabel="labels", ylabel="error on held-out rows, %", ylim=(0, None))
axis.legend()
Path("out/examples").mkdir(parents=True, exist_ok=True)
axis.figure.savefig("out/examples/active_learning.png", dpi=110)
print("picture: out/examples/active_learning.png")
