"""Steps of replicas as one compiled graph: the same numbers, the same noise, the same mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_replicas import MODELS, close, mlp, problem
from torch import nn

from whvi.errors import UnsupportedError
from whvi.inference import MAP, SVI, LinearWarmup, NoisyKFAC, fit_replicas
from whvi.inference.compiled import Compiled, can_compile
from whvi.nn import MatrixGaussianLinear, WHVILinear

SIZES = (30, 30)
needs_compiler = pytest.mark.skipif(not can_compile(), reason="there is no C++ compiler, which Inductor needs")


def fitted(steps: int = 25, **options: Any) -> tuple[list[nn.Module], list[Any]]:
    """Two rates, clipping, a warm-up, frozen noise, buffers that a pass changes: all modules, and the bound."""
    models, likelihoods, data = problem(MODELS["normalised"], (30, 41, 30))
    settings = [SVI(rate, clip=50.0, beta=LinearWarmup(10)) for rate in (1e-2, 3e-3, 1e-2)]
    result = fit_replicas(models, likelihoods, data, steps=steps, algorithm=settings, batch_size=16, **options)
    return [*models, *likelihoods], result.history.elbo


@needs_compiler
def test_compiled_steps_end_where_others_end(tmp_path: Path) -> None:
    """In float64, to nine digits; and bit for bit where they end when a run was stopped."""
    modules, bound = fitted(compile=True)
    expected, expected_bound = fitted(compile=False)
    torch.testing.assert_close(torch.tensor(bound), torch.tensor(expected_bound))
    fitted(8, compile=True, checkpoint=tmp_path)
    resumed, _ = fitted(compile=True, checkpoint=tmp_path)
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
