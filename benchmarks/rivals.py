"""Other posteriors around a trained network, Laplace and IVON by the packages of their authors; for ``adapters.py``."""

from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from letters import BATCH, Predict, dense, task

FUNCTIONS = 32
PACKAGES = {"Laplace": "laplace", "IVON": "ivon"}
"""What methods with these words in their names need: laplace-torch, ivon-opt."""


def missing(method: str) -> str:
    """The package that a method needs and that is not installed, if there is one."""
    needed = [package for word, package in PACKAGES.items() if word in method]
    return needed[0] if needed and find_spec(needed[0]) is None else ""


def averaged(function: Callable[[Tensor], Tensor]) -> Predict:
    """Mean probabilities of functions, each of which is drawn by a call that gives logits."""

    def predict(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        with torch.no_grad():
            return sum(function(x).softmax(-1) for _ in range(FUNCTIONS)) / FUNCTIONS

    return predict


def mc_dropout(seed: int, p: float) -> tuple[Predict, int]:
    """The network as it is, with dropout after each hidden layer."""
    first, relu, second, _, last = dense(seed)[0]
    model = nn.Sequential(first, relu, nn.Dropout(p), second, relu, nn.Dropout(p), last)
    return averaged(model), 0


def laplace(seed: int, weights: str, precision: float) -> tuple[Predict, int]:
    """Kronecker-factored curvature; functions are linear in the weights, f(x) + J(x) (w - w0), as is recommended.

    Args:
        seed: of the network.
        weights: "last_layer" or "all".
        precision: of the prior.
    """
    from laplace import Laplace

    model = deepcopy(dense(seed)[0])
    posterior = Laplace(model, "classification", subset_of_weights=weights, hessian_structure="kron")
    posterior.fit(DataLoader(TensorDataset(*task().train), batch_size=512))
    posterior.prior_precision = torch.tensor(precision)
    names = [name for name, _ in model.named_parameters() if weights == "all" or name.startswith("4.")]
    values = {name: model.get_parameter(name).detach() for name in names}

    def function(x: Tensor) -> Tensor:
        moves = (posterior.sample(1)[0] - posterior.mean).split([value.numel() for value in values.values()])
        tangent = {name: move.reshape(values[name].shape) for name, move in zip(names, moves, strict=True)}
        outputs, change = jvp(lambda own: functional_call(model, own, (x,)), (values,), (tangent,))
        moved: Tensor = outputs + change
        return moved

    return averaged(function), posterior.n_params


def ivon(seed: int, steps: int, rate: float) -> tuple[Predict, int]:
    """Trained on from the network; curvature at the start and weight decay as in the examples of the authors."""
    from ivon import IVON

    model, (x, y) = deepcopy(dense(seed)[0]), task().train
    torch.manual_seed(seed)
    optimizer = IVON(model.parameters(), lr=rate, ess=len(x), hess_init=0.5, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        with optimizer.sampled_params(train=True):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()

    def function(given: Tensor) -> Tensor:
        with optimizer.sampled_params():
            outputs: Tensor = model(given)
        return outputs

    return averaged(function), 2 * sum(p.numel() for p in model.parameters())
