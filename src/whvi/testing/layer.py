"""The contract of the outputs of a Bayesian layer."""

import copy
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.errors import DtypeError, InputTypeError, ShapeError
from whvi.nn import BayesianLayer, Draw, kl, mean_mode, sampling
from whvi.nn.draws import Draws
from whvi.nn.structured import StructuredLayer
from whvi.posterior import PlanarFlow, Point, Posterior
from whvi.testing.compare import (
    assert_close,
    assert_moments,
    assert_same_gradients,
    assert_same_law,
    message_of,
)
from whvi.testing.composition import CompositionContract, same_noise

VALUE, GRADIENT = 1e-12, 1e-10
"""Relative errors that float64 must keep to."""


class LayerContract(CompositionContract, ABC):
    """Invariants of a Bayesian layer.

    A subclass defines ``plain`` and two fixtures: ``layer`` (float64, random, tiny, without special values, with
    ``draws="example"``) and ``inputs`` (float64, its first axis of 6 examples).
    """

    local = False
    """True for a layer that draws outputs and not weights when each example has its own draw."""
    joint = True
    """False for a layer that then draws each output on its own, so that only their means and variances are right."""
    discrete = False
    """True for a layer with few different draws, such as dropout, so that two of them may be equal."""
    samples = 4000
    """Draws that the sampling distribution is checked with."""

    @abstractmethod
    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer that is not Bayesian, at one weight: F.linear, F.conv2d, ..."""

    def test_one_draw_is_the_plain_layer(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """One draw for all inputs: forward == plain(weight_at(draw), bias_value(draw)), in value and gradient."""
        x = inputs.requires_grad_()
        draw = layer.draw()
        with fixed(layer, draw):
            actual = layer(x)
        self._same(layer, x, actual, self.plain(layer, x, layer.weight_at(draw), layer.bias_value(draw)))

    def test_several_draws_are_plain_layers(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """S draws: part s of the batch goes through plain layer s."""
        x = inputs.requires_grad_()
        with sampling(layer, 3) as draws:
            actual = layer(x)
        self._same(layer, x, actual, self._part_by_part(layer, x, draws[layer], 3))
        message = message_of(ShapeError, lambda: _under(layer, draws, x[:5]))
        assert "3 equal parts" in message, message

    def test_a_draw_for_each_example(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Example i goes through plain layer i."""
        x, count = inputs.requires_grad_(), inputs.shape[0]
        draw = layer.draw(None)
        with fixed(layer, draw):
            actual = layer(x)
            assert torch.equal(layer(x), actual)
        if not self.local:
            self._same(layer, x, actual, self._part_by_part(layer, x, draw._replace(shape=(count,)), count))

    def test_mean_mode_is_the_plain_layer_at_the_mean(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """mean_mode: forward == plain(weight(), bias_value())."""
        x = inputs.requires_grad_()
        with mean_mode(layer):
            actual = layer(x)
        self._same(layer, x, actual, self.plain(layer, x, layer.weight_at(), layer.bias_value()))

    def test_sampling_law(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Outputs of one input have the mean and covariance that the weights give them.

        Under draws that one call makes together, and under draws of seeds of their own.
        """
        x, seeds = inputs[0], torch.arange(self.samples)
        with torch.no_grad():
            together = layer(x.expand(self.samples, *x.shape)).flatten(1)
            one_by_one = vmap(lambda seed: _under(layer, {layer: Draw(seed)}, x.unsqueeze(0)))(seeds).flatten(1)
            exact = self.moments(layer, x)
            if exact is None:
                self._same_as_weights(layer, x, together, one_by_one)
            else:
                assert_moments(together, *exact)
                assert_moments(one_by_one, *exact)

    def _same_as_weights(self, layer: BayesianLayer, x: Tensor, together: Tensor, one_by_one: Tensor) -> None:
        """Draws of the outputs (samples, d) have the moments of those that draws of the weights give."""
        draw = layer.draw((self.samples,))
        weights, biases = layer.weight_at(draw), layer.bias_value(draw)
        axes = (0, None if biases is None else 0)
        others = vmap(lambda w, b: self.plain(layer, x.unsqueeze(0), w, b), axes)(weights, biases).flatten(1)
        for columns in (slice(None),) if self.joint else (slice(i, i + 1) for i in range(others.shape[1])):
            assert_same_law(together[:, columns], others[:, columns])
        assert_same_law(one_by_one, others)

    def moments(self, layer: BayesianLayer, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Exact mean and covariance of the outputs at one example, if they are known: (d), (d, d).

        For a structured weight with fixed scales and a Gaussian g the outputs are linear in (g, bias): A Sigma A^T.
        """
        fixed_scales = isinstance(layer, StructuredLayer) and all(isinstance(s, Point) for s in layer.scales)
        if not fixed_scales or any(isinstance(module, PlanarFlow) for module in layer.modules()):
            return None
        probe = copy.deepcopy(layer)
        centre = self._mean_output(probe, x)
        covariance = torch.zeros(2 * centre.shape, dtype=centre.dtype)
        for name in ("g", "bias"):
            vector = getattr(probe, name)
            if vector is None:
                continue
            root = vector.covariance_root()
            columns = []
            for unit in torch.eye(vector.mean.numel(), dtype=x.dtype):
                vector.mean.add_(unit.reshape(vector.mean.shape))
                columns.append(self._mean_output(probe, x) - centre)
                vector.mean.sub_(unit.reshape(vector.mean.shape))
            size = root.shape[-2]
            spread = torch.stack(columns, -1) @ torch.block_diag(*(root @ root.mT).reshape(-1, size, size))
            covariance += spread @ torch.stack(columns)
        return centre, covariance

    def test_examples_differ_and_a_batch_agrees(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Equal inputs: "example" gives different outputs; "batch" equal ones, and others in the next call."""
        x, different = inputs[:1].expand(16, *inputs.shape[1:]), 2 if self.discrete else 16
        with torch.no_grad():
            assert len(layer(x).flatten(1).unique(dim=0)) >= different
            layer.draws = "batch"
            calls = torch.stack([layer(x) for _ in range(16)])
        assert_close(calls, calls[:, :1].expand_as(calls), VALUE)
        assert len(calls[:, 0].flatten(1).unique(dim=0)) >= different

    def test_kl_laws(self, layer: BayesianLayer) -> None:
        """A scalar: the sum of all terms, once for each layer however often it is used, unscaled by their number."""
        total, model = same_noise(layer.kl), nn.Sequential(layer, nn.ReLU(), layer)
        assert total.shape == ()
        terms = same_noise(lambda: torch.stack(list(layer.kl_terms().values())).sum())
        assert_close(total, terms, VALUE)
        assert_same_gradients(total, terms, layer.parameters(), GRADIENT)
        assert_close(same_noise(lambda: kl(model)), total, VALUE)
        assert float(kl(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))) == 0.0
        for parameter in torch.autograd.grad(total, list(layer.parameters()), allow_unused=True):
            assert parameter is None or bool(parameter.isfinite().all())
        if self.kl_is_exact(layer):
            assert float(total.detach()) >= 0.0
            assert_close(kl(nn.Sequential(layer, copy.deepcopy(layer))), 2.0 * total, VALUE)

    def test_kl_has_a_term_for_everything_random(self, layer: BayesianLayer) -> None:
        """Every posterior of the layer that is not a point estimate, nor a part of another, has its own term."""
        inner = {part for each in posteriors(layer) for part in each.modules() if part is not each}
        random = {each for each in posteriors(layer) if each not in inner and not isinstance(each, Point)}
        assert random <= set(layer.kl_terms())

    def test_leading_axes(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Any number of them, none, and empty ones; a draw for each example numbers them in order."""
        features = inputs.shape[1:]
        draw = layer.draw(None)
        with fixed(layer, draw):
            expected = layer(inputs)
            assert_close(layer(inputs.unflatten(0, (2, 3))).flatten(0, 1), expected, VALUE)
            if not self.local:
                assert_close(layer(inputs[0]), expected[0], VALUE)
            assert layer(inputs[0]).shape == expected[0].shape
            assert layer(inputs.new_zeros(2, 0, *features)).shape == (2, 0, *expected.shape[1:])
        for draws in (layer.draw(), layer.draw((3,)), None):
            with fixed(layer, draws):
                empty = layer(inputs[:0].requires_grad_())
            assert empty.shape == (0, *expected.shape[1:])
            empty.sum().backward()

    def test_outputs_lie_in_memory_as_torch_has_them(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Outputs are contiguous, so that ``view`` works, for every draw, with and without gradients."""
        x = inputs.contiguous()
        for recorded in (True, False):
            for draws in (None, layer.draw(), layer.draw((3,)), layer.draw(None)):
                with fixed(layer, draws), torch.set_grad_enabled(recorded):
                    y = layer(x)
                assert y.is_contiguous()
                y.view(-1)

    def test_not_a_number_passes_through(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """An example of NaN has outputs of NaN, and no other example has."""
        x = inputs.clone()
        x[1] = torch.nan
        output = layer(x).isnan().flatten(1)
        assert bool(output[1].all())
        assert not bool(output[[0, 2, 3, 4, 5]].any())

    def test_bad_inputs_are_named(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Errors start with the name of the argument."""
        wide = torch.cat((inputs, inputs), dim=-layer.feature_axes)
        for error, x in ((ShapeError, wide), (DtypeError, inputs.long()), (InputTypeError, inputs.tolist())):
            message = message_of(error, lambda x=x: layer(x))  # type: ignore[misc]
            assert message.startswith("x "), message

    def _same(self, layer: BayesianLayer, x: Tensor, actual: Tensor, expected: Tensor) -> None:
        assert_close(actual, expected, VALUE)
        assert_same_gradients(actual, expected, (x, *layer.parameters()), GRADIENT)

    def _part_by_part(self, layer: BayesianLayer, x: Tensor, draw: Draw | None, parts: int) -> Tensor:
        weights, biases = layer.weight_at(draw), layer.bias_value(draw)
        outputs = [
            self.plain(layer, part, weights[i], None if biases is None else biases[i])
            for i, part in enumerate(x.chunk(parts))
        ]
        return torch.cat(outputs)

    def _mean_output(self, layer: BayesianLayer, x: Tensor) -> Tensor:
        return self.plain(layer, x.unsqueeze(0), layer.weight_at(), layer.bias_value()).flatten()


def fixed(layer: BayesianLayer, draw: Draw | None) -> AbstractContextManager[Draws]:
    """A block in which the layer uses this draw."""
    return sampling(layer, {layer: draw})


def posteriors(layer: nn.Module) -> list[Posterior]:
    """The posteriors in a layer."""
    return [module for module in layer.modules() if isinstance(module, Posterior)]


def _under(layer: BayesianLayer, draws: Draws, x: Tensor) -> Tensor:
    with sampling(layer, draws):
        output: Tensor = layer(x)
    return output
