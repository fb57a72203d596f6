"""SVI on one model with all parameters in one vector: a step is one compiled graph and one optimizer call."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from whvi.errors import UnsupportedError
from whvi.inference.algorithm import Run, Terms
from whvi.inference.compiled import Gradients
from whvi.inference.optimizer_state import optimizer_numbers, optimizer_tensors, restore_optimizer
from whvi.inference.schedules import at
from whvi.inference.stacked import Flat
from whvi.inference.svi import SVI, make_optimizer, set_rates, trainable
from whvi.likelihoods import Likelihood
from whvi.ops import seeded, seeds_from
from whvi.rows import Inputs, device


class FlatRun(Run):
    """A run of SVI on one model. While it runs, the parameters of model and likelihood are views of one vector.

    The optimizer must be elementwise, as Adam and SGD are.

    Law: it ends with the parameters of ``SVIRun``, within rounding, and both have the same state: each can resume
    a run of the other.
    """

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        self.settings, self.model, self.likelihood, self.n_data = settings, model, likelihood, n_data
        parameters = trainable(model, likelihood)
        self.flat = Flat(settings.bound(settings, model, likelihood))
        names = {id(parameter): name for name, parameter in self.flat.parameters.items()}
        self.names = [names[id(parameter)] for parameter in parameters]
        """Of the parameters, in the order in which ``SVIRun`` gives them to its optimizer."""
        self.vector = nn.Parameter(self.flat.flat())
        self.optimizer = make_optimizer(settings, [self.vector])
        check_groups(self.optimizer, 1)
        self.gradients = Gradients(self._bound)
        self._attached = False

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step of the optimizer."""
        self._attach()
        key = torch.initial_seed()  # of this step: the noise is that of layers which draw their seeds themselves
        terms, (self.vector.grad,) = self.gradients(
            [self.vector.detach()],
            self.flat.others,
            lambda count: seeds_from(key, (count,)).to(device(x)),
            at(self.settings.kl_weight, step),
            x,
            y,
        )
        set_rates(self.optimizer, at(self.settings.schedule, step))
        frozen = step < self.likelihood.frozen_steps
        descend(self.optimizer, [self.vector], self.settings.clip, self.flat.model_size if frozen else None)
        return terms

    def _bound(self, learned: list[Tensor], fixed: dict[str, Tensor], seeds: Tensor, x: Inputs, y: Tensor) -> Any:
        with seeded(seeds, graphs=True):
            return self.flat.call({**self.flat.split(learned[0]), **fixed}, x, y, self.n_data)

    @torch.no_grad()
    def _attach(self) -> None:
        """Copy the parameters into the vector and make them views of it."""
        if not self._attached:
            self.vector.copy_(self.flat.flat())
            for name, view in self.flat.split(self.vector.detach()).items():
                self.flat.parameters[name].data = view
            self._attached = True

    def finish(self) -> None:
        """Give each parameter its own memory again."""
        if self._attached:
            for parameter in self.flat.parameters.values():
                parameter.data = parameter.detach().clone()
            self._attached = False

    def learned(self) -> list[Tensor]:
        """The vector, or its parameters."""
        return [self.vector] if self._attached else list(self.flat.parameters.values())

    def tensors(self) -> dict[str, Tensor]:
        """The state of the optimizer, split into that of each parameter."""
        found: dict[str, Tensor] = {}
        for key, value in optimizer_tensors(self.optimizer).items():
            name = key.split(".", 2)[2]
            parts = self.flat.split(value) if value.shape == self.vector.shape else dict.fromkeys(self.names, value)
            found |= {f"optimiser.{index}.{name}": parts[own] for index, own in enumerate(self.names)}
        return found

    def numbers(self) -> dict[str, Any]:
        """Of the optimizer, once for each parameter."""
        numbers = optimizer_numbers(self.optimizer).items()
        return {f"{i}.{key.split('.', 1)[1]}": value for key, value in numbers for i in range(len(self.names))}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the optimizer: the states of all parameters, which must have the same number of steps, joined."""
        whole: dict[str, Tensor] = {}
        for name in dict.fromkeys(key.split(".", 2)[2] for key in tensors if key.startswith("optimiser.")):
            parts = {own: tensors.get(f"optimiser.{index}.{name}") for index, own in enumerate(self.names)}
            known = [part for part in parts.values() if part is not None]
            alike = all(p is None or p.shape == self.flat.parameters[own].shape for own, p in parts.items())
            if alike and name != "step":  # a parameter that had no gradient has no state: it is that of the start
                start = {own: torch.zeros_like(parameter) for own, parameter in self.flat.parameters.items()}
                given = (value if (part := parts[own]) is None else part for own, value in start.items())
                whole[f"optimiser.0.{name}"] = torch.cat([part.flatten() for part in given])
            else:
                whole[f"optimiser.0.{name}"] = torch.stack(known).amax(0)
        restore_optimizer(self.optimizer, whole, {f"0.{key.split('.', 1)[1]}": v for key, v in numbers.items()})


def descend(
    optimizer: Optimizer, rows: Sequence[nn.Parameter], clip: float | None, frozen_from: int | None = None
) -> None:
    """One step of an optimizer from the gradients of rows: (..., parameters).

    Args:
        optimizer: its parameters are the rows.
        clip: largest norm of the gradient of a row, or None.
        frozen_from: index of the first frozen element of a row, or None.
    """
    gradients = [row.grad for row in rows if row.grad is not None]
    still = [] if frozen_from is None else [row.detach()[..., frozen_from:] for row in rows]
    before = [part.clone() for part in still]
    for gradient in gradients:
        if frozen_from is not None:
            gradient[..., frozen_from:] = 0.0
        if clip is not None:
            norms = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
            gradient *= (clip / (norms + 1e-6)).clamp_max(1.0)  # as torch.nn.utils.clip_grad_norm_
    optimizer.step()
    for part, value in zip(still, before, strict=True):
        part.copy_(value)  # an optimizer with weight decay moves what has no gradient, too


def check_groups(optimizer: Optimizer, count: int) -> None:
    """Raise UnsupportedError unless an optimizer kept the given groups, with one tensor in each."""
    groups = optimizer.param_groups
    if len(groups) != count or any(len(group["params"]) != 1 for group in groups):
        raise UnsupportedError(
            "here all parameters are one tensor, so the optimizer must accept the parameter groups that it is given, "
            "as torch.optim.Adam does; otherwise fit the model alone and without compile=True"
        )
