"""The covariance figure: its numbers are those of samples, and it shows what it says."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whvi_paper.exhibits import covariance

SIZE = covariance.INPUTS["size"]
POSTERIORS = covariance.INPUTS["posteriors"]


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_numbers_behind_the_figure_are_those_of_samples(posterior: str) -> None:
    layer, count = covariance.make_layer(covariance.INPUTS, posterior), 100_000
    shown = covariance.correlations(layer)
    draw = layer.draw((count,))
    samples = torch.cat([layer.g.rsample((count,), seed=draw.seed), layer.weight_at(draw).mT.flatten(1)], 1).detach()
    sampled = samples.T.corrcoef()
    for exact, estimate in ((shown["g"], sampled[:SIZE, :SIZE]), (shown["weight"], sampled[SIZE:, SIZE:])):
        error = (1 - exact.square()) / count**0.5  # of a correlation, for large samples
        assert ((estimate - exact).abs() <= 5 * error + 1e-9).all()  # 2,000 different ones: 4 is too few


def recorded(tmp_path: Path) -> dict[str, dict[str, Tensor]]:
    """The matrices of the record."""
    (results,) = covariance.compute([covariance.INPUTS], tmp_path, lambda share: None)
    metrics = results["metrics"]
    return {p: {name: torch.tensor(m, dtype=torch.float64) for name, m in metrics[p].items()} for p in POSTERIORS}


def test_record_has_the_matrices_to_four_digits(tmp_path: Path) -> None:
    for posterior, matrices in recorded(tmp_path).items():
        exact = covariance.correlations(covariance.make_layer(covariance.INPUTS, posterior))
        for name in covariance.KINDS:
            assert_close(matrices[name], exact[name], atol=0.5001e-4, rtol=0)


def test_figure_shows_what_it_says(tmp_path: Path) -> None:
    diagonal, full = recorded(tmp_path).values()
    assert_close(diagonal["g"], torch.eye(SIZE, dtype=torch.float64))
    assert full["g"].fill_diagonal_(0).abs().max() > 0.3
    index = torch.arange(SIZE)
    same = (index[:, None] ^ index).flatten()
    tied = same[:, None] == same  # the entries i, j of W with one i xor j are multiples of one number
    for matrices in (diagonal, full):
        assert_close(matrices["weight"][tied].abs(), torch.ones(int(tied.sum()), dtype=torch.float64))
        assert matrices["weight"][~tied].abs().max() < 1
        assert (matrices["matrix_normal"] - matrices["weight"]).abs().max() > 0.9
