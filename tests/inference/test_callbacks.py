"""Callbacks: in which order they are called, what they may do, and the keywords that they replace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import ArgumentError, CheckpointError, InputTypeError
from whvi.inference import (
    SGHMC,
    SVI,
    Callback,
    Checkpoint,
    EarlyStopping,
    Every,
    History,
    Moment,
    Progress,
    elbo,
    fit,
    fit_ensemble,
    fit_replicas,
)
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

X = torch.linspace(-1.0, 1.0, 12).reshape(6, 2)
DATA = X, X.sum(1)


def network() -> nn.Module:
    """The same each time, so that a run knows its checkpoint again."""
    torch.manual_seed(0)
    return nn.Linear(2, 1)


class Told(Callback):
    """Notes each call, and counts its steps over interruptions."""

    name: ClassVar[str] = "told"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.count = torch.zeros((), dtype=torch.int64)

    def setup(self, moment: Moment) -> None:
        self.calls.append(f"setup {moment.step}")

    def on_start(self, moment: Moment) -> None:
        self.calls.append(f"start {moment.step}")

    def on_step(self, moment: Moment) -> None:
        self.calls.append(f"step {moment.step}")
        self.count += 1

    def after_step(self, moment: Moment) -> None:
        self.calls.append(f"after {moment.step} {moment.ends}")

    def on_end(self, moment: Moment) -> None:
        self.calls.append(f"end {moment.step}")

    def close(self) -> None:
        self.calls.append("close")

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"count": self.count}, {"calls": len(self.calls)}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        self.count = tensors["count"]


def test_hooks_come_in_order_and_their_state_comes_back(tmp_path: Path) -> None:
    first, second = Told(), Told()
    fit(network(), Gaussian(), DATA, steps=2, callbacks=[Checkpoint(tmp_path), first])
    assert first.calls == [
        "setup 0", "start 0", "step 1", "after 1 False", "step 2", "after 2 True", "end 2", "close",
    ]  # fmt: skip
    fit(network(), Gaussian(), DATA, steps=3, callbacks=[second, Checkpoint(tmp_path)])
    assert second.calls == ["setup 0", "start 2", "step 3", "after 3 True", "end 3", "close"]
    assert int(second.count) == 3


def resumed(folder: Path, earlier: list[Callback], later: list[Callback]) -> None:
    """Two steps with some callbacks, then one more with others."""
    for steps, callbacks in ((2, earlier), (3, later)):
        fit(network(), Gaussian(), DATA, steps=steps, callbacks=[*callbacks, Checkpoint(folder)])


class Stateless(Callback):
    name: ClassVar[str] = "mine"

    restored: int = 0

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        assert (tensors, numbers) == ({}, {})
        self.restored += 1


def test_a_name_without_a_state_is_resumed(tmp_path: Path) -> None:
    later = Stateless()
    resumed(tmp_path, [Stateless()], [later])
    assert later.restored == 1


@pytest.mark.parametrize("name", ["run", "model", "identity", "stopped", "callbacks"])
def test_a_callback_may_have_the_name_of_a_part_of_the_run(name: str, tmp_path: Path) -> None:
    class Named(Told):
        pass

    Named.name = name
    earlier, later = Named(), Named()
    resumed(tmp_path, [earlier], [later])
    assert (int(earlier.count), int(later.count)) == (2, 3)


def test_a_callback_that_the_earlier_run_did_not_have_starts_afresh(tmp_path: Path) -> None:
    later = Told()
    resumed(tmp_path, [], [later])
    assert int(later.count) == 1
    again = Told()
    fit(network(), Gaussian(), DATA, steps=4, callbacks=[again, Checkpoint(tmp_path)])
    assert int(again.count) == 2


class Unnamed(Told):
    name: ClassVar[str] = ""


class Dotted(Told):
    name: ClassVar[str] = "to.ld"


class Strict(Told):
    """Belongs to runs of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind}


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        ([Told(), Told()], r"2 callbacks have the name 'told' \(Told and Told\)"),
        ([EarlyStopping("elbo"), EarlyStopping("elbo")], "2 callbacks have the name 'early_stopping'"),
        ([History(2), History(3)], "2 callbacks have the name 'history'"),
        ([Unnamed()], 'Unnamed has a state or an identity, but no name .*: name = "unnamed"'),
        ([Dotted()], "must not have a dot, got 'to.ld' of Dotted"),
    ],
)
def test_states_that_a_checkpoint_could_not_tell_apart_are_refused(callbacks: list[Callback], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fit(nn.Linear(2, 1), Gaussian(), DATA, steps=1, callbacks=callbacks)


@pytest.mark.parametrize("replicas", [False, True])
def test_the_identity_of_a_callback_must_agree(replicas: bool, tmp_path: Path) -> None:
    def run(kind: str, steps: int) -> None:
        callbacks = [Strict(kind), Checkpoint(tmp_path)]
        if replicas:
            fit_replicas([network()], [Gaussian()], [DATA], steps=steps, callbacks=callbacks)
        else:
            fit(network(), Gaussian(), DATA, steps=steps, callbacks=callbacks)

    run("one", 1)
    run("one", 2)
    with pytest.raises(CheckpointError, match=r"callbacks.told.kind was 'one' and is 'other'"):
        run("other", 3)


def test_it_is_closed_where_a_run_fails() -> None:
    told = Told()

    def fail(moment: Moment) -> None:
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        fit(nn.Linear(2, 1), Gaussian(), DATA, steps=2, callbacks=[told, Every(1, fail)])
    assert told.calls[-2:] == ["step 1", "close"]


@pytest.mark.parametrize(
    ("make", "name"),
    [(History, "every"), (lambda n: Checkpoint("out", n), "every"), (lambda n: Every(n, print), "steps")],
    ids=["History", "Checkpoint", "Every"],
)
def test_errors_name_the_argument(make: Any, name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} must be"):
        make(0)


def test_one_early_stopping_serves_several_fits() -> None:
    stopping = EarlyStopping("elbo", every=2, patience=100)
    for _ in range(2):
        result = fit(nn.Linear(2, 1), Gaussian(), DATA, steps=4, callbacks=[stopping])
        assert result.history.stopped == "steps"
        assert stopping.bests[""].misses <= 1


def test_what_is_no_callback_is_said() -> None:
    with pytest.raises(InputTypeError, match=r"such as Every\(100, function\)\), got list of function"):
        fit(nn.Linear(2, 1), Gaussian(), DATA, steps=1, callbacks=[lambda moment: None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"record_every": 2}, [History(2)]),
        ({"early_stopping": EarlyStopping(every=2), "validation": DATA}, [EarlyStopping(every=2, validation=DATA)]),
        ({"callback": lambda moment: moment.step == 3, "callback_every": 3}, [Every(3, lambda moment: True)]),
        ({"progress": True}, [Progress(True)]),
    ],
)
def test_old_keywords_are_callbacks_and_warn(
    old: dict[str, Any], new: list[Callback], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(**options: Any) -> tuple[list[Tensor], History, bool]:
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        result = fit(model, Gaussian(), DATA, steps=5, **options)
        return list(model.parameters()), result.history, "5/5" in capsys.readouterr().err

    with pytest.warns(DeprecationWarning, match=rf"^{'=, '.join(old)}= is deprecated: use "):
        found = run(**old)
    wanted = run(callbacks=new)
    assert all(torch.equal(a, b) for a, b in zip(found[0], wanted[0], strict=True))
    assert found[1:] == wanted[1:]


def call(function: str, **options: Any) -> None:
    """One of the functions that fit, for a step."""
    if function == "fit":
        fit(nn.Linear(2, 1), Gaussian(), DATA, steps=1, **options)
    else:
        fit_replicas([nn.Linear(2, 1)], [Gaussian()], [DATA], steps=1, **options)


@pytest.mark.parametrize("function", ["fit", "fit_replicas"])
def test_an_unknown_keyword_is_a_type_error_of_the_function(function: str) -> None:
    with pytest.raises(InputTypeError, match=rf"^{function}\(\) got an unexpected keyword argument 'epochs'$"):
        call(function, epochs=3)


@pytest.mark.parametrize("word", ["distributed", "early_stopping", "validation", "log_dir"])
def test_a_keyword_that_replicas_never_had_is_refused(word: str) -> None:
    with pytest.raises(InputTypeError, match=rf"^fit_replicas\(\) got an unexpected keyword argument '{word}'; use "):
        call("fit_replicas", **{word: True})


@pytest.mark.parametrize("function", ["fit", "fit_replicas"])
def test_the_warning_points_to_the_caller(function: str) -> None:
    with pytest.warns(DeprecationWarning, match="^record_every= is deprecated") as caught:
        call(function, record_every=1)
    assert [warning.filename for warning in caught] == [__file__]


def test_old_names_of_settings_warn() -> None:
    with pytest.warns(DeprecationWarning, match="beta is now called kl_weight"):
        settings = SVI(beta=0.5)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="optimiser is now called optimizer"):
        other = SVI(kl_weight=0.5, optimiser=torch.optim.SGD)  # type: ignore[call-arg]
    assert settings == SVI(kl_weight=0.5)
    assert other == SVI(kl_weight=0.5, optimizer=torch.optim.SGD)
    with pytest.warns(DeprecationWarning, match="beta is now called kl_weight"):
        assert settings.beta == 0.5  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="beta is now called kl_weight"):
        parts = elbo(WHVILinear(2, 1), Gaussian(), X, DATA[1][:, None], n_data=6, beta=0.5)  # type: ignore[call-arg]
    assert parts.kl_weight == 0.5
    with (
        pytest.warns(DeprecationWarning, match="beta is now called"),
        pytest.raises(ArgumentError, match="kl_weight is given twice"),
    ):
        SVI(beta=0.5, kl_weight=0.5)  # type: ignore[call-arg]


def test_a_fit_predicts_with_its_own_likelihood() -> None:
    model, likelihood = WHVILinear(2, 1), Gaussian()
    found = fit(model, likelihood, DATA, steps=3).predict(X, samples=8, seed=1)
    assert torch.equal(found.variance, whvi.predict(model, X, 8, likelihood=likelihood, seed=1).variance)


def test_ensembles_predict_with_all_members() -> None:
    trained = fit_ensemble(lambda: nn.Linear(2, 1), Gaussian(), DATA, members=3, steps=3)
    sampled = fit(nn.Linear(2, 1), Gaussian(), DATA, steps=8, algorithm=SGHMC(burn_in=2, thin=2, chains=2))
    for result, members in ((trained, 3), (sampled, 6)):
        found = result.predict(X, seed=1)
        assert found.samples().shape[0] == members
        assert torch.equal(found.variance, whvi.predict(result.posterior, X, None, seed=1).variance)
        assert bool((found.aleatoric > 0.0).all())
