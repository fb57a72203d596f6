"""Old import paths of public names give the same object as the new ones, and say where it is."""

from importlib import import_module

import pytest

MOVED = {
    "whvi.inference": ("whvi_paper.baselines", "NoisyKFAC"),
    "whvi.models": (
        "whvi_paper.networks",
        "MODELS TREATMENTS Count LayerCount Treatment alexnet convnet count_parameters resnet18 simple_cnn treatment "
        "vgg16",
    ),
    "whvi.nn": (
        "whvi_paper.baselines",
        "LowRankMCDropoutConv2d MatrixGaussianConv2d MatrixGaussianLinear TensorFactorisedLinear",
    ),
}
"""Old module: new module, names."""
CASES = [(old, new, name) for old, (new, names) in MOVED.items() for name in names.split()]


@pytest.mark.parametrize(("old", "new", "name"), CASES, ids=[f"{old}.{name}" for old, _, name in CASES])
def test_old_path_gives_the_same_object_and_warns(old: str, new: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"^{old}.{name} has moved: import {name} from {new}$"):
        found = getattr(import_module(old), name)
    assert found is getattr(import_module(new), name)
    assert name not in import_module(old).__all__
    assert name in import_module(new).__all__


@pytest.mark.parametrize("module", MOVED)
def test_a_name_that_never_was_is_an_ordinary_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$"):
        import_module(module).nonsense  # noqa: B018


def test_a_name_may_have_changed_with_its_place() -> None:
    posterior = import_module("whvi.posterior")
    with pytest.warns(DeprecationWarning, match=r"^whvi.posterior.Gaussian has moved: import GaussianPosterior from"):
        assert posterior.Gaussian is posterior.GaussianPosterior
