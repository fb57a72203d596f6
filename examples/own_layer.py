"""A layer of your own: a gated linear unit whose value and gate share one random vector g, and the contract it keeps.

Ends in a table on the screen and in out/examples/own_layer.txt. In miniature: python examples/own_layer.py --quick
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import whvi
from whvi.inference import SVI, CosineDecay
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

STEPS = 5 if "--quick" in sys.argv else 600


class Gated(nn.Module):
    """y = (W1 x + b1) * sigmoid(W2 x + b2), where W1 and W2 have their own scales and one g."""

    def __init__(self, inputs: int, outputs: int, shared: bool) -> None:
        super().__init__()
        self.value, self.gate = WHVILinear(inputs, outputs), WHVILinear(inputs, outputs)
        if shared:
            whvi.share_g(self)  # drawn once in each pass, counted once in the KL

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) * torch.sigmoid(self.gate(x))


# The contract: under a fixed draw the layer is the plain one with these weights
layer, x = Gated(16, 16, shared=True), torch.randn(5, 16)
with whvi.sampling(layer) as draws:
    torch.testing.assert_close(layer(x), whvi.to_dense(layer, draws)(x))

# Does sharing cost accuracy? Two networks on one problem, judged on held-out rows
torch.manual_seed(0)
x = torch.randn(1500, 16)
y = (x[:, :1] * torch.sigmoid(3 * x[:, 1:2])) + 0.1 * torch.randn(1500, 1)
lines = [f"{'g of value and gate':22}{'parameters':>11}{'KL':>8}{'RMSE':>8}{'MNLL':>8}"]
for name, shared in {"their own": False, "shared": True}.items():
    torch.manual_seed(1)
    model = nn.Sequential(Gated(16, 64, shared), Gated(64, 64, shared), WHVILinear(64, 1))
    algorithm = SVI(1e-2, schedule=CosineDecay(STEPS))
    result = whvi.fit(model, Gaussian(variance=0.1), (x[:1000], y[:1000]), steps=STEPS, algorithm=algorithm, seed=0)
    prediction, kl = result.predict(x[1000:], samples=32, seed=0), whvi.kl(model).item()
    size = sum(p.numel() for p in model.parameters())
    lines.append(f"{name:22}{size:11,}{kl:8.0f}{prediction.rmse(y[1000:]):8.3f}{prediction.mnll(y[1000:]):8.3f}")
print(*lines, sep="\n")
out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
(out / "own_layer.txt").write_text("\n".join(lines) + "\n")
