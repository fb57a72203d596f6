"""Bands that widen where data are missing: one Walsh-Hadamard network, and an ensemble of them.

Ends in out/examples/toy.png. In miniature: python examples/toy.py --quick
"""

import sys
from pathlib import Path

import torch
from matplotlib import pyplot
from torch import nn

import whvi
from whvi.inference import SVI, CosineDecay, LinearWarmup, fit_ensemble
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.predictive.plots import plot_bands

STEPS = 20 if "--quick" in sys.argv else 2000

# %% A curve with noise, and a gap in the middle
torch.manual_seed(0)
x = torch.cat([-2 + 1.4 * torch.rand(80, 1), 0.6 + 1.4 * torch.rand(80, 1)])
y = torch.sin(3 * x) + 0.5 * x + 0.15 * torch.randn(160, 1)


# %% One network, and four that are trained at once; the noise is learned after the curve
def network() -> nn.Module:
    return nn.Sequential(WHVILinear(1, 128), nn.Tanh(), WHVILinear(128, 128), nn.Tanh(), WHVILinear(128, 1))


torch.manual_seed(0)
algorithm = SVI(1e-2, schedule=CosineDecay(STEPS), kl_weight=LinearWarmup(STEPS // 2))
options = {"steps": STEPS, "algorithm": algorithm, "batch_size": 160, "seed": 0}
results = {
    "one network": whvi.fit(network(), Gaussian(variance=0.02, frozen_steps=STEPS * 3 // 4), (x, y), **options),
    "four networks": fit_ensemble(
        network, Gaussian(variance=0.02, frozen_steps=STEPS * 3 // 4), (x, y), members=4, **options
    ),
}

# %% What they predict
grid = torch.linspace(-3, 3, 150).unsqueeze(1)
figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axis, (name, result) in zip(axes, results.items(), strict=True):
    prediction = result.predict(grid, samples=96, seed=0)
    bands = {level: prediction.interval(level) for level in (0.5, 0.95)}
    plot_bands(grid, prediction.mean, bands, data=(x, y), axis=axis)
    known, gap = prediction.epistemic[(grid.abs() - 1.3).abs() < 0.5], prediction.epistemic[grid.abs() < 0.4]
    axis.set_title(f"{name}: epistemic std {known.mean().sqrt():.2f} at data, {gap.mean().sqrt():.2f} in the gap")
    axis.title.set_fontsize(9)

out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "toy.png", dpi=110)
print(f"picture: {out / 'toy.png'}")
