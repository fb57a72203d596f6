"""A checkpoint belongs to its run: a model that began elsewhere is refused and stays as it was."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from whvi.errors import CheckpointError
from whvi.inference import MAP, SGHMC, SVI, Checkpoint, EarlyStopping, Fit, fit, fit_replicas
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

X = torch.linspace(-1.0, 1.0, 40).reshape(20, 2)
Y = X.sum(1)


class Pretrained(nn.Module):
    """A frozen part with a buffer that is saved and one that is not, and a head that is trained."""

    def __init__(self, seed: int = 0, head: Callable[..., nn.Module] = WHVILinear) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.base = nn.Linear(2, 4).requires_grad_(False)
        self.register_buffer("shift", torch.zeros(4))
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.shift: Tensor
        self.scale: Tensor
        self.head = head(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head((self.base(x) + self.shift).tanh() * self.scale)
        return y


def run(folder: Path, model: nn.Module, steps: int = 4, **more: object) -> Fit:
    callbacks = [Checkpoint(folder), *([EarlyStopping("elbo", every=1, patience=2)] if more.pop("early", 0) else [])]
    settings: dict[str, object] = {"algorithm": SVI(1e-2), "batch_size": 8, **more}
    return fit(model, Gaussian(), (X, Y), steps=steps, callbacks=callbacks, **settings)  # type: ignore[arg-type]


def edit(name: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        with torch.no_grad():
            dict([*model.named_parameters(), *model.named_buffers()])[name].view(-1)[0] += 1e-3

    return change


@pytest.mark.parametrize("name", ["base.weight", "shift", "scale", "head.g.mean"])
@pytest.mark.parametrize("steps", [4, 6], ids=["finished", "going-on"])
def test_another_model_is_refused_and_stays_as_it_was(name: str, steps: int, tmp_path: Path) -> None:
    run(tmp_path, Pretrained())
    other = Pretrained()
    edit(name)(other)
    before = {key: tensor.clone() for key, tensor in [*other.named_parameters(), *other.named_buffers()]}
    with pytest.raises(CheckpointError, match=rf"other weights \(.*model.{name}.*build the model as it was built"):
        run(tmp_path, other, steps)
    after = dict([*other.named_parameters(), *other.named_buffers()])
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(("algorithm", "head"), [(SVI(1e-2), WHVILinear), (MAP(1e-2), nn.Linear)], ids=["svi", "map"])
def test_the_same_start_resumes_in_the_same_bits(algorithm: SVI, head: type[nn.Module], tmp_path: Path) -> None:
    whole, cut, resumed = (Pretrained(head=head) for _ in range(3))
    run(tmp_path / "whole", whole, 6, algorithm=algorithm)
    run(tmp_path / "cut", cut, 4, algorithm=algorithm)
    run(tmp_path / "cut", resumed, 6, algorithm=algorithm)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert checkpoint.load(tmp_path / "cut").state["start"] == checkpoint.load(tmp_path / "whole").state["start"]


def test_a_model_goes_on_from_where_the_call_before_left_it(tmp_path: Path) -> None:
    model = Pretrained()
    run(tmp_path, model)
    run(tmp_path, model)  # the cell of a notebook, again
    run(tmp_path, model, 6)
    edit("base.bias")(model)
    with pytest.raises(CheckpointError, match="began with other weights"):
        run(tmp_path, model, 8)


def test_the_best_of_early_stopping_is_known_again(tmp_path: Path) -> None:
    model = Pretrained()
    first = run(tmp_path, model, 200, early=True)
    assert first.history.stopped == "early"
    kept = model.state_dict()["head.g.mean"].clone()
    run(tmp_path, model, 200, early=True)
    assert torch.equal(model.state_dict()["head.g.mean"], kept)


def replicas(folder: Path, models: list[nn.Module], steps: int = 3) -> Fit:
    data = [(X, Y.unsqueeze(-1))] * 2
    return fit_replicas(models, [Gaussian(), Gaussian()], data, steps=steps, callbacks=[Checkpoint(folder)])


def test_replicas_too(tmp_path: Path) -> None:
    models: list[nn.Module] = [Pretrained(0), Pretrained(1)]
    replicas(tmp_path, models)
    replicas(tmp_path, models, 4)
    replicas(tmp_path, [Pretrained(0), Pretrained(1)], 5)
    with pytest.raises(CheckpointError, match=r"other numbers: .*1\.model"):
        replicas(tmp_path, [Pretrained(0), Pretrained(2)], 5)


def test_chains_too(tmp_path: Path) -> None:
    sampler = SGHMC(burn_in=1, thin=1, chains=2)
    torch.manual_seed(0)
    run(tmp_path, nn.Linear(2, 1), algorithm=sampler)
    torch.manual_seed(0)
    run(tmp_path, nn.Linear(2, 1), 6, algorithm=sampler)
    with pytest.raises(CheckpointError, match=r"other numbers: model\.bias, model\.weight"):
        run(tmp_path, nn.Linear(2, 1), 8, algorithm=sampler)
