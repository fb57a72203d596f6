"""``whvi.fit`` with a transform of its batches: seeded by the step, part of what a checkpoint is checked by."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from whvi.errors import WhviError
from whvi.inference import SVI, Checkpoint, fit
from whvi.inference.batches import TensorBatches
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

X = torch.arange(60, dtype=torch.uint8).reshape(20, 3)
DATA = X, X.float().mean(1, keepdim=True)


@dataclass(frozen=True)
class Jitter:
    """uint8 -> float32, with noise."""

    size: float = 0.1

    def __call__(self, x: Tensor) -> Tensor:
        return x / 60 + self.size * torch.randn(x.shape)


def run(steps: int, transform: Jitter, folder: Path | None = None) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(WHVILinear(3, 8), nn.ReLU(), WHVILinear(8, 1))
    saving = [] if folder is None else [Checkpoint(folder, 5)]
    options = {"batch_size": 6, "callbacks": saving, "transform": transform}
    fit(model, Gaussian(), DATA, steps=steps, algorithm=SVI(1e-2), **options)  # type: ignore[arg-type]
    return [tensor.clone() for tensor in model.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_it_draws_depends_on_seed_and_step_alone() -> None:
    def batches(seed: int = 1) -> TensorBatches:
        return TensorBatches(*DATA, Gaussian(), 6, seed, transform=Jitter())

    straight = [batches().at(step) for step in range(4)]
    late = batches()
    torch.rand(5)
    for step in (3, 1):
        for one, other in zip(late.at(step), straight[step], strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(batches(2).at(0)[0], straight[0][0])
    x, y = straight[0]
    torch.testing.assert_close(x.mean(1, keepdim=True) * 60, y, atol=15.0, rtol=0)  # still the row of its target
    noise = [x - plain / 60 for (x, _), plain in zip(straight, plain_rows(4), strict=True)]
    assert not torch.equal(noise[0], noise[1])


def plain_rows(count: int) -> list[Tensor]:
    batches = TensorBatches(*DATA, Gaussian(), 6, 1)
    return [batches.at(step)[0] for step in range(count)]


def test_a_resumed_run_ends_in_the_same_bits(tmp_path: Path) -> None:
    whole = run(14, Jitter())
    run(8, Jitter(), tmp_path)
    assert checkpoint.steps(tmp_path) == [5, 8]
    assert same(run(14, Jitter(), tmp_path), whole)
    assert not same(run(14, Jitter(0.2)), whole)


def test_another_transform_is_not_resumed(tmp_path: Path) -> None:
    run(5, Jitter(), tmp_path)
    with pytest.raises(WhviError, match=r"belongs to another run: transform.size was 0.1 and is 0.2"):
        run(10, Jitter(0.2), tmp_path)
    with pytest.raises(WhviError, match=r"belongs to another run: .*transform was .*Jitter.* and is None"):
        fit(nn.Sequential(WHVILinear(3, 8), nn.ReLU(), WHVILinear(8, 1)), Gaussian(), (X.float(), DATA[1]), steps=10,
            algorithm=SVI(1e-2), batch_size=6, callbacks=[Checkpoint(tmp_path)])  # fmt: skip


@pytest.mark.parametrize("batch_size", [6, 20])
def test_it_may_write_into_what_it_is_given(batch_size: int) -> None:
    """Rows of the caller stay as they were, also where a batch has all of them."""
    x = torch.ones(20, 3)

    def erase(rows: Tensor) -> Tensor:
        assert (rows == 1.0).all()
        rows[:, 1] = 0.0
        return rows

    fit(WHVILinear(3, 1), Gaussian(), (x, x[:, :1]), steps=3, batch_size=batch_size, transform=erase)
    assert torch.equal(x, torch.ones(20, 3))


def test_the_callers_generator_is_left_alone() -> None:
    model = WHVILinear(3, 1)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(model, Gaussian(), DATA, steps=2, batch_size=6, transform=Jitter())
    assert torch.equal(torch.rand(3), expected)


def test_a_loader_transforms_its_own_rows() -> None:
    loader = DataLoader(TensorDataset(*DATA), batch_size=6)
    with pytest.raises(WhviError, match="transform needs tensors; transform rows in the dataset"):
        fit(WHVILinear(3, 1), Gaussian(), loader, steps=2, transform=Jitter())


def test_the_precision_that_counts_is_that_of_the_transformed_rows() -> None:
    with pytest.raises(WhviError, match="float64"):
        fit(WHVILinear(3, 1), Gaussian(), DATA, steps=2, transform=lambda x: x.double())
