"""The strings that name posteriors."""

import pytest
import torch

from whvi.errors import ArgumentError, InputTypeError
from whvi.posterior import (
    DiagonalGaussian,
    FullGaussian,
    LowRankGaussian,
    PlanarFlow,
    Point,
    Posterior,
    make_posterior,
)


@pytest.mark.parametrize(
    ("spec", "kind", "parameters"),
    [
        ("point", Point, 8),
        ("optimised", Point, 8),
        ("diagonal", DiagonalGaussian, 16),
        ("low_rank", LowRankGaussian, 16 + 8 * 8),
        ("low_rank:3", LowRankGaussian, 16 + 3 * 8),
        ("full", FullGaussian, 8 + 36),
        ("planar", PlanarFlow, 16 + 10 * 17),
        ("planar:2", PlanarFlow, 16 + 2 * 17),
        ("planar:2:full", PlanarFlow, 44 + 2 * 17),
        ("planar:2:low_rank:3", PlanarFlow, 40 + 2 * 17),
        ("planar:low_rank:3", PlanarFlow, 40 + 10 * 17),
    ],
)
def test_names(spec: str, kind: type[Posterior], parameters: int) -> None:
    posterior = make_posterior(spec, torch.zeros(8), -1.5)
    assert type(posterior) is kind
    assert sum(p.numel() for p in posterior.parameters()) == parameters
    base = posterior.base if isinstance(posterior, PlanarFlow) else posterior
    if not isinstance(base, Point):
        assert bool((base.get_parameter("log_std") == -1.5).all())


def test_a_function_of_the_mean() -> None:
    assert isinstance(make_posterior(lambda mean: FullGaussian(mean, 0.1), torch.zeros(2)), FullGaussian)
    with pytest.raises(InputTypeError, match="Linear, not a Posterior"):
        make_posterior(lambda mean: torch.nn.Linear(2, 2), torch.zeros(2))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "spec", ["", "Diagonal", "gauss", "low_rank:", "low_rank:x", "planar:-1", "planar:2:point", "planar:2:planar:2"]
)
def test_unknown_names_are_quoted(spec: str) -> None:
    with pytest.raises(ArgumentError, match=f"posterior '{spec}'"):
        make_posterior(spec, torch.zeros(2))


def test_other_errors() -> None:
    with pytest.raises(InputTypeError, match=r"posterior must be a string or a function.*3"):
        make_posterior(3, torch.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"rank.*0"):
        make_posterior("low_rank:0", torch.zeros(2))
    with pytest.raises(ArgumentError, match=r"steps.*0"):
        make_posterior("planar:0", torch.zeros(2))
    with pytest.raises(ArgumentError, match="at least one axis"):
        make_posterior("diagonal", torch.zeros(()))
