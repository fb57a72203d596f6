"""Steps of replicas as one compiled graph: the same numbers, the same noise, the same mistakes."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from test_replicas import MODELS, close, mlp, problem
from torch import nn

from whvi.errors import UnsupportedError
from whvi.inference import MAP, SGHMC, SVI, Checkpoint, LinearWarmup, fit, fit_replicas
from whvi.inference.compiled import Compiled, can_compile
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi_paper.baselines import MatrixGaussianLinear, NoisyKFAC

SIZES = (30, 30)
needs_compiler = pytest.mark.skipif(not can_compile(), reason="there is no C++ compiler, which Inductor needs")


def fitted(steps: int = 25, **options: Any) -> tuple[list[nn.Module], list[Any]]:
    """Two rates, clipping, a warm-up, frozen noise, buffers that a pass changes: all modules, and the bound."""
    models, likelihoods, data = problem(MODELS["normalised"], (30, 41, 30))
    settings = [SVI(rate, clip=50.0, kl_weight=LinearWarmup(10)) for rate in (1e-2, 3e-3, 1e-2)]
    result = fit_replicas(models, likelihoods, data, steps=steps, algorithm=settings, batch_size=16, **options)
    return [*models, *likelihoods], result.history.elbo


@needs_compiler
def test_compiled_steps_end_where_others_end(tmp_path: Path) -> None:
    """In float64, to nine digits; and bit for bit where they end when a run was stopped."""
    modules, bound = fitted(compile=True)
    expected, expected_bound = fitted(compile=False)
    torch.testing.assert_close(torch.tensor(bound), torch.tensor(expected_bound))
    fitted(8, compile=True, callbacks=[Checkpoint(tmp_path)])
    resumed, _ = fitted(compile=True, callbacks=[Checkpoint(tmp_path)])
    for one, other, again in zip(modules, expected, resumed, strict=True):
        close(one, other)
        close(one, again, 0.0)


@needs_compiler
def test_noise_of_torchs_own_generator_is_refused() -> None:
    models, likelihoods, data = problem(lambda: mlp(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)), SIZES)
    with pytest.raises(UnsupportedError, match="draws from torch's generator"):
        fit_replicas(models, likelihoods, data, steps=2, algorithm=MAP(), compile=True)


def _kfac() -> dict[str, Any]:
    models, likelihoods, data = problem(lambda: MatrixGaussianLinear(3, 1), SIZES)
    return {"models": models, "likelihoods": likelihoods, "data": data, "algorithm": NoisyKFAC()}


def _no_compiler() -> dict[str, Any]:
    models, likelihoods, data = problem(lambda: WHVILinear(3, 1), SIZES)
    return {"models": models, "likelihoods": likelihoods, "data": data}


@pytest.mark.parametrize(
    ("make", "message"), [(_kfac, "not one graph"), (_no_compiler, "C\\+\\+ compiler, and there is none")]
)
def test_what_cannot_be_compiled_is_said(
    make: Callable[[], dict[str, Any]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match=message):
        fit_replicas(**make(), steps=2, compile=True)


@needs_compiler
def test_a_graph_for_each_shape() -> None:
    """What is given may be nested, is not changed by tracing, and is changed by the function as it is without."""

    def add(total: dict[str, torch.Tensor], values: list[torch.Tensor]) -> torch.Tensor:
        total["sum"].add_(values[0].sum())
        return values[0] * 2.0

    compiled = Compiled(add)
    total = {"sum": torch.zeros(())}
    for count in (2, 3, 2):
        assert torch.equal(compiled(total, [torch.ones(count)]), torch.full((count,), 2.0))
    assert float(total["sum"]) == 7.0


def alone(model: nn.Module, steps: int = 25, **options: Any) -> tuple[list[nn.Module], list[Any]]:
    """One model with clipping, a warm-up, frozen noise and, where it has them, buffers that a pass changes."""
    torch.manual_seed(3)
    x = torch.randn(41, 3, dtype=torch.float64)
    likelihood = Gaussian(frozen_steps=5).double()
    settings = {"algorithm": SVI(1e-2, clip=50.0, kl_weight=LinearWarmup(10)), "batch_size": 16, "seed": 4, **options}
    result = fit(model, likelihood, (x, x.sin().sum(1)), steps=steps, **settings)
    return [model, likelihood], result.history.elbo


def start(name: str) -> nn.Module:
    torch.manual_seed(1)
    return MODELS[name]().double()


@needs_compiler
@pytest.mark.parametrize("name", ["normalised", "inferred scales"])
def test_one_model_ends_where_it_ends_without_and_resumes_from_either(name: str, tmp_path: Path) -> None:
    """In float64, to nine digits, whichever of the two goes on from whose checkpoint."""
    modules, bound = alone(start(name), compile=True)
    expected, expected_bound = alone(start(name))
    torch.testing.assert_close(torch.tensor(bound), torch.tensor(expected_bound))
    alone(start(name), 8, compile=True, callbacks=[Checkpoint(tmp_path / "compiled")])
    again, _ = alone(start(name), compile=True, callbacks=[Checkpoint(tmp_path / "compiled")])
    alone(start(name), 8, compile=True, callbacks=[Checkpoint(tmp_path / "to eager")])
    alone(start(name), 8, callbacks=[Checkpoint(tmp_path / "to compiled")])
    others = [
        alone(start(name), compile=compiled, callbacks=[Checkpoint(tmp_path / folder)])[0]
        for folder, compiled in (("to eager", False), ("to compiled", True))
    ]
    for i, one in enumerate(modules):
        close(one, expected[i])
        close(one, again[i])
        close(one, others[0][i])
        close(one, others[1][i])


@needs_compiler
def test_parameters_have_memory_of_their_own_again() -> None:
    (model, likelihood), _ = alone(start("normalised"), 3, compile=True)
    parameters = [*model.parameters(), *likelihood.parameters()]
    assert len({parameter.untyped_storage().data_ptr() for parameter in parameters}) == len(parameters)


@needs_compiler
def test_an_optimizer_of_groups_of_its_own_is_refused() -> None:
    def grouped(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": parameters, "lr": lr}, {"params": [nn.Parameter(torch.zeros(1))]}], lr=lr)

    with pytest.raises(UnsupportedError, match="accept the parameter groups"):
        alone(start("normalised"), 2, compile=True, algorithm=SVI(optimizer=grouped))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"algorithm": SGHMC(burn_in=1, thin=1)}, "not one graph"), ({}, "C\\+\\+ compiler, and there is none")],
)
def test_what_cannot_be_compiled_alone_is_said(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match=message):
        alone(nn.Linear(3, 1).double(), 2, compile=True, **options)


@needs_compiler
def test_dropout_of_torch_alone_is_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double()
    with pytest.raises(UnsupportedError, match="draws from torch's generator"):
        alone(model, 2, compile=True)


@needs_compiler
def test_torch_compile_takes_the_place_of_a_missing_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._inductor", ModuleType("torch._inductor"))
    monkeypatch.setattr(torch, "compile", lambda graph, **options: lambda *tensors: graph(*tensors))
    x = torch.randn(5)
    assert torch.equal(Compiled(lambda x: x * 2.0)(x), x * 2.0)
