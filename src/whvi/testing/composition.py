"""The contract of a Bayesian layer in copies, precisions, graphs, vmap and threads."""

import copy
import pickle
import threading
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from whvi.inference.seeds import start_generators
from whvi.nn import BayesianLayer, Draw, mean_mode, sampling
from whvi.posterior import PlanarFlow
from whvi.testing.compare import assert_close, assert_same_gradients, perturb

SEED = torch.tensor(11)
State = dict[str, Tensor]


class CompositionContract:
    """Invariants of a layer without state between passes; a part of :class:`whvi.testing.LayerContract`."""

    def kl_is_exact(self, layer: BayesianLayer) -> bool:
        """True when ``kl`` is a closed form; an estimate can be negative, and is only as precise as its draws."""
        return not any(isinstance(module, PlanarFlow) for module in layer.modules())

    def test_a_pass_leaves_no_trace(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """After forward, backward and kl: no new attributes, the same state, and copies with the same outputs."""
        names = [set(vars(module)) for module in layer.modules()]
        state = {name: value.clone() for name, value in layer.state_dict().items()}
        layer(inputs).sum().backward()
        layer.kl()
        assert [set(vars(module)) for module in layer.modules()] == names
        for name, value in layer.state_dict().items():
            assert torch.equal(value, state[name])
        loaded = copy.deepcopy(layer)
        perturb(loaded, 1.0, buffers=True)
        assert not any(isinstance(value, Tensor) for module in layer.modules() for value in vars(module).values())
        assert not torch.equal(_output(loaded, inputs), _output(layer, inputs))
        loaded.load_state_dict(layer.state_dict())
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
            assert torch.equal(_output(other, inputs), _output(layer, inputs))
            assert torch.equal(same_noise(other.kl), same_noise(layer.kl))

    def test_other_precisions(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """.to(float32), .to(bfloat16) and autocast keep the function, and give the dtype that nn.Linear would."""
        single, half = copy.deepcopy(layer).float(), copy.deepcopy(layer).bfloat16()
        for draw in (Draw(SEED, None), Draw(SEED, (2,)), Draw(SEED), None):
            expected = _at(layer, draw, inputs)
            with torch.autocast("cpu", torch.bfloat16):
                mixed = _at(single, draw, inputs.float())
            plain = _at(single, draw, inputs.float()), _at(half, draw, inputs.bfloat16())
            for output, dtype in zip((*plain, mixed), (torch.float32, torch.bfloat16, torch.bfloat16), strict=True):
                assert output.dtype == dtype
                assert_close(output.double(), expected, 1e-4 if dtype == torch.float32 else 0.15, f"{draw}, {dtype}")
        with torch.autocast("cpu", torch.bfloat16):
            distance = same_noise(single.kl)
        assert distance.dtype == torch.float32
        relative = 1e-4 if self.kl_is_exact(layer) else 0.01
        assert_close(1.0 + distance.double(), 1.0 + same_noise(layer.kl), relative, "kl in autocast")

    def test_compile(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """One graph: equal to eager with fresh draws from the same seed, and in every block that fixes them."""
        torch.compiler.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        actual, expected = same_noise(lambda: compiled(inputs)), same_noise(lambda: layer(inputs))
        assert_close(actual, expected, 1e-12)
        assert_same_gradients(actual, expected, layer.parameters(), 1e-10)
        with torch.no_grad():
            for seed in (SEED, SEED + 1):
                with sampling(layer, {layer: Draw(seed)}):
                    assert_close(compiled(inputs), layer(inputs), 1e-12, "a fixed draw")
        torch.compiler.reset()

    def test_export(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """torch.export at the mean gives a program that equals eager."""
        with mean_mode(layer), torch.no_grad():
            program = torch.export.export(layer, (inputs,))
            assert_close(program.module()(inputs), layer(inputs), 1e-12)

    def test_vmap_over_draws(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """vmap over seeds equals a loop; fresh draws inside vmap are different ones."""
        for shape in ((), (2,)):

            def at(seed: Tensor, shape: tuple[int, ...] = shape) -> Tensor:
                return _at(layer, Draw(seed, shape), inputs)

            seeds = torch.tensor([3, 4])
            assert_close(vmap(at)(seeds), torch.stack([at(seed) for seed in seeds]), 1e-12)
        fresh = vmap(lambda x: layer(x), randomness="different")(inputs.expand(2, *inputs.shape))
        assert not torch.equal(fresh[0], fresh[1])

    def test_vmap_over_models(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Stacked parameters under vmap equal a loop over the models, under the same draws."""
        other = copy.deepcopy(layer)
        perturb(other, 0.1)
        parameters, buffers = stack_module_state([layer, other])
        for shape in ((), (2,), None):

            def call(parameters: State, buffers: State, shape: tuple[int, ...] | None = shape) -> Tensor:
                with sampling(layer, {layer: Draw(SEED, shape)}):
                    output: Tensor = functional_call(layer, (parameters, buffers), inputs)
                return output

            expected = [_at(model, Draw(SEED, shape), inputs) for model in (layer, other)]
            assert_close(vmap(call)(parameters, buffers), torch.stack(expected), 1e-12)
        parameters, buffers = stack_module_state([_Kl(layer), _Kl(other)])
        batched = vmap(lambda p, b: functional_call(_Kl(layer), (p, b), ()), randomness="same")
        expected = [same_noise(model.kl) for model in (layer, other)]
        assert_close(same_noise(lambda: batched(parameters, buffers)), torch.stack(expected), 1e-12, "kl")

    def test_threads_do_not_see_each_other(self, layer: BayesianLayer, inputs: Tensor) -> None:
        """Blocks that are open at the same time in two threads, and none in a third: each has its own draws."""
        barrier = threading.Barrier(2, timeout=30)
        found: dict[int, Tensor] = {}

        def work(number: int) -> None:
            with sampling(layer, {layer: Draw(SEED + number)}):
                barrier.wait()
                found[number] = layer(inputs)
                barrier.wait()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        with mean_mode(layer):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number in range(2):
            assert torch.equal(found[number], _at(layer, Draw(SEED + number), inputs))
        assert not torch.equal(found[0], found[1])


class _Kl(nn.Module):
    """The KL of a layer as a forward pass, so that its parameters can be replaced."""

    def __init__(self, layer: BayesianLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self) -> Tensor:
        """A scalar."""
        return self.layer.kl()


def same_noise(call: Callable[[], Tensor]) -> Tensor:
    """A value with torch's generator at a fixed seed."""
    start_generators(6)
    return call()


def _at(layer: BayesianLayer, draw: Draw | None, x: Tensor) -> Tensor:
    with sampling(layer, {layer: draw}):
        output: Tensor = layer(x)
    return output


def _output(layer: BayesianLayer, x: Tensor) -> Tensor:
    """At a fixed draw for each example."""
    return _at(layer, Draw(SEED, None), x).detach()
