"""Gaussian processes by random features: a full posterior of n weights, and WHVI with about 4 sqrt(n) parameters.

Ends in out/examples/gaussian_process.png. In miniature: python examples/gaussian_process.py --quick
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import whvi
from whvi.inference import SVI, CosineDecay
from whvi.likelihoods import Gaussian
from whvi.models import RandomFeatureGP
from whvi.predictive.plots import plot_bands

STEPS, SAMPLES = (3, 4) if "--quick" in sys.argv else (800, 128)

torch.manual_seed(0)
x = torch.cat([torch.rand(40, 1) * 2 - 3, torch.rand(40, 1) * 2 + 1])
y = torch.sin(2 * x) + 0.1 * torch.randn(80, 1)
grid = torch.linspace(-5, 5, 150).unsqueeze(1)


def process(posterior: str, fixed_scales: bool) -> tuple[RandomFeatureGP, Gaussian]:
    """A process with 256 random Fourier features, fitted to the data."""
    torch.manual_seed(1)
    gp, likelihood = RandomFeatureGP(1, 256, posterior=posterior, lengthscale=1.0), Gaussian(variance=0.05)
    if fixed_scales:  # scales that are fitted bend the functions until they agree, also where data are missing
        gp.weights.scales.requires_grad_(False)
    algorithm = SVI(2e-2, schedule=CosineDecay(STEPS))
    whvi.fit(gp, likelihood, (x, y), steps=STEPS, algorithm=algorithm, batch_size=80, seed=0)
    return gp, likelihood


figure = Figure(figsize=(11, 3.6), layout="constrained")
cases = {"full": ("full", False), "WHVI": ("whvi", False), "WHVI, fixed scales": ("whvi-full", True)}
print(f"{'':22}{'parameters':>11}{'noise (0.1)':>13}{'std in the gap':>16}")
for axis, (name, (posterior, fixed)) in zip(figure.subplots(1, 3, sharey=True), cases.items(), strict=True):
    gp, likelihood = process(posterior, fixed)
    prediction = whvi.predict(gp, grid, samples=SAMPLES, likelihood=likelihood, seed=0)
    bands = {level: prediction.interval(level) for level in (0.5, 0.95)}
    plot_bands(grid, prediction.mean, bands, data=(x, y), functions=prediction.samples(4), axis=axis)
    axis.set_title(name)
    size = sum(p.numel() for p in gp.weights.parameters() if p.requires_grad)
    gap = prediction.epistemic[grid.abs() < 0.5].mean().sqrt()
    print(f"{name:22}{size:11,}{likelihood.noise:13.3f}{gap:16.3f}")

out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "gaussian_process.png", dpi=100)
print(f"picture: {out / 'gaussian_process.png'}")
