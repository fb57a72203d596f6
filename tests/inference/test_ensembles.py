"""``fit_ensemble``: members are models trained alone, whatever the model."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.adapters import adapt
from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, CheckpointError, InputTypeError, WhviError
from whvi.inference import MAP, SVI, Checkpoint, EarlyStopping, Fit, fit, fit_ensemble, fit_replicas, member_seeds
from whvi.inference.compiled import can_compile
from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.nn.beside import slots

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).double()
Y = X.sum(1, keepdim=True).sin()
HELD_OUT = X[:10].flip(0) * 0.9, Y[:10].flip(0)


def whvi_network() -> nn.Module:
    return nn.Sequential(WHVILinear(3, 8), nn.Tanh(), MeanFieldLinear(8, 1)).double()


def base() -> nn.Module:
    """The same each time, as a model that was trained earlier."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first, last = nn.Linear(3, 16), nn.Linear(16, 1)
        return nn.Sequential(first, nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), last).double()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "WHVI": whvi_network,
    "adapters": lambda: adapt(base()).model,
    "mean field": lambda: nn.Sequential(MeanFieldLinear(3, 8), nn.ReLU(), MeanFieldLinear(8, 1)).double(),
    "MC dropout": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), MCDropout(nn.Linear(8, 1))).double(),
    "plain": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).double(),
}


def equal(one: nn.Module, other: nn.Module, tolerance: float = 1e-9) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}")


def alone(make: Callable[[], nn.Module], seed: int, likelihood: Gaussian, **options: object) -> nn.Module:
    """What the law of ``fit_ensemble`` says of a member."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make()
    fit(model, likelihood, (X, Y), seed=seed, **options)  # type: ignore[arg-type]
    return model


def noise_of(ensemble: Ensemble, member: int) -> Tensor:
    likelihood = ensemble.likelihood()
    assert likelihood is not None
    return likelihood.get_parameter("log_variance")[member].flatten()


@pytest.mark.parametrize("name", MODELS)
def test_a_member_is_the_model_trained_alone_with_its_seed(name: str) -> None:
    likelihood, make = Gaussian().double(), MODELS[name]
    algorithm = MAP(1e-2) if name == "plain" else SVI(1e-2)
    options = {"steps": 12, "batch_size": 16, "algorithm": algorithm}
    result = fit_ensemble(make, likelihood, (X, Y), members=3, seed=4, **options)  # type: ignore[arg-type]
    assert isinstance(result.posterior, Ensemble)
    assert likelihood.noise == Gaussian().double().noise  # the caller's own is left as it was
    for member, seed in enumerate(member_seeds(4, 3)):
        own = Gaussian().double()
        equal(result.posterior.member(member), alone(make, seed, own, **options))
        assert own.log_variance is not None
        torch.testing.assert_close(noise_of(result.posterior, member), own.log_variance.detach().flatten())


def test_early_stopping_is_each_members_own(tmp_path: Path) -> None:
    """Law: with looks that stop members at different steps, each ends as it would alone; also after an interruption."""

    def stopping() -> EarlyStopping:
        return EarlyStopping(every=3, patience=2, samples=4, validation=HELD_OUT)

    options = {"steps": 60, "batch_size": 8, "algorithm": SVI(0.2)}
    make = MODELS["WHVI"]
    whole = fit_ensemble(make, Gaussian().double(), (X, Y), members=3, callbacks=[stopping()], **options)  # type: ignore[arg-type]
    assert whole.history.stopped == "early"
    ends = set()
    for member, seed in enumerate(member_seeds(0, 3)):
        result = Gaussian().double()
        model = make_alone(make, seed, result, stopping(), options)
        assert isinstance(whole.posterior, Ensemble)
        equal(whole.posterior.member(member), model.posterior, 1e-7)
        looks = [
            (step, values[member]) for step, values in whole.history.validation if values[member] == values[member]
        ]
        assert looks == [(step, pytest.approx(value, rel=1e-6)) for step, value in model.history.validation]
        ends.add(model.history.validation[-1][0])
    assert len(ends) > 1  # or the test says little

    def part(steps: int) -> Fit:
        some = {**options, "steps": steps, "callbacks": [stopping(), Checkpoint(tmp_path, 5)]}
        return fit_ensemble(make, Gaussian().double(), (X, Y), members=3, **some)  # type: ignore[arg-type]

    part(min(ends) + 1)
    for resumed in (part(60), part(60)):
        for a, b in zip(resumed.posterior.state_dict().values(), whole.posterior.state_dict().values(), strict=True):
            assert torch.equal(a, b)


def make_alone(
    make: Callable[[], nn.Module], seed: int, likelihood: Gaussian, stopping: EarlyStopping, options: dict[str, object]
) -> Fit:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make()
    return fit(model, likelihood, (X, Y), seed=seed, callbacks=[stopping], **options)  # type: ignore[arg-type]


def test_adapters_on_one_base_hold_it_once() -> None:
    """Law: what each further member costs is its deltas, and running statistics where there are any."""

    def make() -> nn.Module:
        return adapt(nn.Sequential(deepcopy(wide), nn.Linear(64, 1).requires_grad_(False))).model

    wide = nn.Linear(3, 64)
    sizes = []
    for members in (2, 3):
        result = fit_ensemble(make, Gaussian(), (X.float(), Y.float()), members=members, steps=2)
        sizes.append(sum(tensor.numel() for tensor in result.posterior.state_dict().values()))
    deltas = sum(p.numel() for _, _, slot in slots(make()) for p in slot.delta.parameters())  # type: ignore[union-attr]
    assert sizes[1] - sizes[0] == deltas + 65 + 1  # the last layer differs from member to member, and so does the noise


def test_a_shared_base_is_known_again(tmp_path: Path) -> None:
    """It is in no checkpoint, and a run does not go on from another one."""

    def run(weight: float, steps: int) -> Fit:
        def make() -> nn.Module:
            model = base()
            nn.init.constant_(model.get_parameter("0.weight"), weight)
            return adapt(model).model

        callbacks = [Checkpoint(tmp_path)]
        return fit_ensemble(make, Gaussian().double(), (X, Y), members=2, steps=steps, callbacks=callbacks)

    run(0.5, 2)
    run(0.5, 4)
    with pytest.raises(WhviError, match=r"began with other weights .*0\.model\.0\.weight"):
        run(0.25, 6)


@pytest.mark.skipif(not can_compile(), reason="needs a C++ compiler")
def test_compiled_with_a_shared_base() -> None:
    options = {"steps": 6, "batch_size": 16, "algorithm": SVI(1e-2), "members": 2}
    eager, compiled = (
        fit_ensemble(MODELS["adapters"], Gaussian().double(), (X, Y), compile=flag, **options)  # type: ignore[arg-type]
        for flag in (False, True)
    )
    equal(compiled.posterior, eager.posterior)


def test_members_and_draws_are_mixed_equally() -> None:
    result = fit_ensemble(whvi_network, Gaussian().double(), (X, Y), members=3, steps=3)
    f = whvi.predict(result.posterior, X[:4], 6, seed=0).samples()
    assert f.shape == (6, 4, 1)
    found = result.predict(X[:4], seed=0)
    assert found.functions == 66  # 22 draws of each
    torch.testing.assert_close(found.samples().mean(0), found.mean)
    plain = fit_ensemble(MODELS["plain"], Gaussian().double(), (X, Y), members=3, steps=3)
    assert plain.predict(X[:4]).functions == 3


def run(make: object = whvi_network, likelihood: object = Gaussian(), members: int = 8) -> object:
    return fit_ensemble(make, likelihood, (X, Y), members=members, steps=1)  # type: ignore[arg-type]


def two(*likelihoods: Likelihood) -> object:
    return fit_replicas([whvi_network() for _ in "ab"], likelihoods, [(X, Y)] * 2, steps=1)


ONE = whvi_network()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: run(members=0), ArgumentError, "members must be at least 1, got 0"),
        (lambda: run(ONE), InputTypeError, "make_model must be a function that returns a model, got Sequential"),
        (lambda: run(lambda: 3), InputTypeError, "model must be a torch.nn.Module, got int"),
        (lambda: run(lambda: ONE), ArgumentError, "a model and a likelihood of its own"),
        (lambda: run(likelihood=[Gaussian()] * 8), InputTypeError, "likelihood must be one of .*got list"),
        (lambda: two(Gaussian(), Gaussian(1, "input")), ArgumentError, "in replica 1 likelihood"),
        (lambda: two(Gaussian(), Categorical(2)), ArgumentError, "in replica 1 likelihood"),
    ],
)
def test_bad_calls(call: Callable[[], object], error: type[WhviError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["WHVI", "adapters"])
@pytest.mark.parametrize("common", [True, False])
def test_saved_and_loaded_as_one_folder(name: str, common: bool, tmp_path: Path) -> None:
    make = MODELS[name]
    result = fit_ensemble(make, Gaussian().double(), (X, Y), members=3, steps=3)
    assert isinstance(result.posterior, Ensemble)
    result.posterior.save(tmp_path, common=common)
    same = Ensemble.load(tmp_path, make, Gaussian().double())
    one, other = (whvi.predict(ensemble, X, seed=0) for ensemble in (same, result.posterior))
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.aleatoric, other.aleatoric)
    with pytest.raises(CheckpointError, match=r"another (architecture|base)"):
        Ensemble.load(tmp_path, MODELS["plain"], Gaussian().double())
    with pytest.raises(CheckpointError, match="another architecture: likelihood"):
        Ensemble.load(tmp_path, make, Gaussian(1, "input").double())
    with pytest.raises(CheckpointError, match="has likelihoods, but likelihood is None"):
        Ensemble.load(tmp_path, make)
    if name == "adapters":
        moved = adapt(base()).model
        nn.init.zeros_(moved.get_parameter("5.weight"))
        if common:
            loaded = Ensemble.load(tmp_path, lambda: moved, Gaussian().double())
            assert torch.equal(whvi.predict(loaded, X, seed=0).mean, one.mean)
        else:
            with pytest.raises(CheckpointError, match=r"another base .*other numbers: 5.weight"):
                Ensemble.load(tmp_path, lambda: moved, Gaussian().double())
