"""LSTM and GRU twins and adapters: torch's own networks with the weights of a draw, one draw for a sequence."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence

import whvi
from whvi.adapters import merge, unload
from whvi.errors import WhviError
from whvi.inference import fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import WHVIGRU, WHVILSTM
from whvi.nn.model import bayesian_layers
from whvi.nn.recurrent import RECURRENT, Recurrent

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "without bias": {"num_layers": 2, "bias": False, "posterior": "full"},
    "for each sequence": {"batch_first": True, "draws": "example", "scales": "diagonal"},
}
TWINS: list[tuple[type[Recurrent], str]] = [(twin, name) for twin in (WHVILSTM, WHVIGRU) for name in OPTIONS]


def data(network: nn.Module) -> tuple[Tensor, Any]:
    """Six sequences of four steps, and a state."""
    plain: Any = network.plain if isinstance(network, Recurrent) else network
    x = torch.randn(6, 4, 5, dtype=torch.float64)
    shape = (plain.num_layers * (1 + plain.bidirectional), 6, 6)
    h, c = torch.randn(2, *shape, dtype=torch.float64)
    return x if plain.batch_first else x.transpose(0, 1).contiguous(), (h, c) if isinstance(plain, nn.LSTM) else h


def assert_same(one: Any, other: Any, **options: Any) -> None:
    """Tensors in tuples."""
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12, **options)


@pytest.mark.parametrize(("twin", "name"), TWINS, ids=lambda value: getattr(value, "__name__", value))
def test_a_draw_is_torchs_network_in_value_and_gradient(twin: type[Recurrent], name: str) -> None:
    """Law: forward == the network of torch with ``weights(draws)``."""
    model = twin(5, 6, **OPTIONS[name], dtype=torch.float64)
    x, state = data(model)
    plain = whvi.to_dense(model)
    with whvi.sampling(model, 1) as draws:
        for hx in (None, state):
            named = dict(zip(dict(plain.named_parameters()), model.weights(draws), strict=True))
            ours, theirs = model(x, hx), functional_call(plain, named, (x, hx))
            assert_same(ours, theirs)
            grads = [torch.autograd.grad(y[0].square().sum(), list(model.parameters())) for y in (ours, theirs)]
            assert_same(*grads)
    assert_same(whvi.to_dense(model, draws)(x), model_at(model, draws, x))


def model_at(model: nn.Module, draws: Any, x: Tensor) -> Any:
    with whvi.sampling(model, draws):
        return model(x)


@pytest.mark.parametrize(("twin", "name"), TWINS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("draws", [3, "example"])
def test_parts_have_draws_of_their_own(twin: type[Recurrent], name: str, draws: Any) -> None:
    """Law: with S draws, part s of the batch goes through the network of draw s."""
    model = twin(5, 6, **OPTIONS[name], dtype=torch.float64)
    x, state = data(model)
    axis = 0 if model.batch_first else 1
    with whvi.sampling(model, draws) as found:
        y, last = model(x, state)
    count = 6 if draws == "example" else 3
    named = {layer: draw._replace(shape=(count,)) for layer, draw in found.items() if draw is not None}
    weights = model.weights(named)
    plain = whvi.to_dense(model)
    for part in range(count):
        rows = slice(part * 6 // count, (part + 1) * 6 // count)
        own = dict(zip(dict(plain.named_parameters()), [weight[part] for weight in weights], strict=True))
        inner = tuple(s[:, rows] for s in state) if isinstance(state, tuple) else state[:, rows]
        wanted, _ = functional_call(plain, own, (x[rows] if axis == 0 else x[:, rows], inner))
        assert_same(y[rows] if axis == 0 else y[:, rows], wanted)
    assert (last[0] if isinstance(last, tuple) else last).shape[1] == 6


@pytest.mark.parametrize("kind", RECURRENT)
def test_packed_sequences_and_single_ones(kind: type[nn.RNNBase]) -> None:
    model = RECURRENT[kind](5, 6, dtype=torch.float64)
    x, _ = data(model)
    packed = pack_padded_sequence(x, torch.tensor([4, 4, 3, 2, 2, 1]))
    with whvi.sampling(model) as draws:
        plain = whvi.to_dense(model, draws)
        assert_same(model(packed)[0].data, plain(packed)[0].data)
        assert_same(model(x[:, 0]), plain(x[:, 0]))
    with whvi.sampling(model, 3), pytest.raises(WhviError, match="must be 3 equal parts"):
        model(packed)


def test_every_matrix_counts_once_in_the_kl() -> None:
    model = WHVILSTM(5, 6, 2, bidirectional=True)
    assert len(bayesian_layers(model)) == 8
    torch.testing.assert_close(whvi.kl(model), sum(layer.kl() for layer in bayesian_layers(model)))
    biases = [layer.bias for layer in bayesian_layers(WHVILSTM(5, 6, proj_size=3))]
    assert [bias is None for bias in biases] == [False, False, True]


@pytest.mark.parametrize("kind", RECURRENT)
def test_conversion_there_and_back(kind: type[nn.RNNBase], tmp_path: Path) -> None:
    """Law: biases stay, the report counts, and what was saved comes back in the same bits."""
    dense = kind(32, 32, 2, bidirectional=True, batch_first=True)
    model, report = whvi.bayesianize(dense)
    assert isinstance(model, RECURRENT[kind])
    assert report.after == sum(p.numel() for p in model.parameters()) < report.before
    back = whvi.to_dense(model)
    assert type(back) is kind
    torch.testing.assert_close(back.bias_hh_l1_reverse, dense.bias_hh_l1_reverse)
    whvi.save_model(model, tmp_path / "model")
    again = whvi.load_model(kind(32, 32, 2, bidirectional=True, batch_first=True), tmp_path / "model")
    x = torch.randn(6, 4, 32)
    prediction, other = (whvi.predict(m, x, samples=3, seed=0).mean for m in (model, again))
    assert torch.equal(prediction, other)
    with whvi.mean_mode(model):
        torch.testing.assert_close(model(x)[0], back(x)[0])


@pytest.mark.parametrize("kind", RECURRENT)
def test_adapters(kind: type[nn.RNNBase]) -> None:
    """Law: the mean at the start is the base bit for bit; a draw is the network with W0 + delta; unload restores it."""
    base = kind(16, 16, 2, batch_first=True, dtype=torch.float64)
    x = torch.randn(6, 4, 16, dtype=torch.float64)
    before = base(x)[0]
    model, report = whvi.adapt(copy.deepcopy(base), rule=kind)
    assert report.numbers == sum(p.numel() for p in model.parameters() if p.requires_grad)
    with whvi.mean_mode(model):
        assert torch.equal(model(x)[0], before)
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with whvi.sampling(other) as draws:
            y, last = other(x)
            assert not torch.allclose(y, before)
            assert_same(merge(other, draws)(x), (y, last))
    with whvi.sampling(model, 3) as draws:
        y = model(x)[0]
    with whvi.sampling(model, draws):
        assert torch.equal(model(x)[0], y)
    assert not torch.allclose(y[:2], y[2:4])
    unload(model)
    assert type(model) is kind
    assert torch.equal(model(x)[0], before)


def test_several_models_at_once_are_refused() -> None:
    x = torch.randn(4, 3, 5)
    models = [nn.Sequential(WHVILSTM(5, 6, batch_first=True)) for _ in range(2)]
    with pytest.raises(WhviError, match="no batching rule for LSTM"):
        fit_replicas(models, [Gaussian(6, positions=1) for _ in models], [(x, x.repeat(1, 1, 2)[..., :6])] * 2, steps=1)
