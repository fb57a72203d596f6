"""Old import paths of public names give the same object as the new ones, and say where it is."""

import math
from importlib import import_module

import pytest
import torch

import whvi

MOVED = {
    "whvi.bench": ("whvi_paper.bench", "run"),
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
    assert name not in getattr(import_module(old), "__all__", ())
    assert name in import_module(new).__all__


@pytest.mark.parametrize("module", MOVED)
def test_a_name_that_never_was_is_an_ordinary_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$"):
        import_module(module).nonsense  # noqa: B018


RENAMED = {
    ("whvi.io", "Checkpoint"): "SavedState",
    ("whvi.posterior", "Gaussian"): "GaussianPosterior",
    ("whvi_paper.data", "Data"): "LoadedDataset",
    ("whvi_paper.data", "Task"): "DatasetKind",
}


@pytest.mark.parametrize(("module", "old", "new"), [(*names, new) for names, new in RENAMED.items()])
def test_a_name_may_have_changed(module: str, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^{module}.{old} has moved: import {new} from {module}$"):
        assert getattr(import_module(module), old) is getattr(import_module(module), new)


IN_0_1 = {
    "whvi": (
        "WhviError __version__ acquire bayesianize convert elbo fit fwht inference kernel_info kl likelihoods "
        "mean_mode models nn ops pad posterior predict predictive sampling structure to_dense"
    ),
    "whvi.bench": "run",
    "whvi.convert": "BayesianAttention Converted Report Row bayesianize dnn_to_bnn get_kl_loss to_dense",
    "whvi.inference": (
        "MAP SGHMC SVI Algorithm Constant CosineDecay CyclicWarmup EarlyStopping Elbo Fit History LinearWarmup "
        "Moment NoisyKFAC OneCycle PowerDecay PowerDecayLR Run Terms deep_ensemble effective_sample_size elbo fit "
        "fit_replicas split_rhat"
    ),
    "whvi.io": "Checkpoint atomic canonical checkpoint",
    "whvi.likelihoods": "Bernoulli Categorical Discrete Gaussian Likelihood",
    "whvi.models": (
        "KERNELS MODELS POSTERIORS PROJECTIONS TREATMENTS Count LayerCount RandomFeatureGP RandomFeatures "
        "Treatment alexnet convnet count_parameters resnet18 simple_cnn treatment vgg16"
    ),
    "whvi.nn": (
        "BayesianLayer Draw FullCovarianceLinear LowRankMCDropoutConv2d MCDropout MatrixGaussianConv2d "
        "MatrixGaussianLinear MeanFieldConv2d MeanFieldLinear TensorFactorisedLinear WHVIColumn WHVIConv2d "
        "WHVILinear kl mean_mode sampling"
    ),
    "whvi.ops": (
        "KernelInfo chain draw_seed energy fwht kernel_info noisy_bias noisy_chain normal pad seeded seeds_from"
    ),
    "whvi.page": "check_svg figure_svg frame",
    "whvi.posterior": (
        "ConstantWeightVariance DiagonalGaussian FullGaussian Gaussian GaussianPrior LowRankGaussian Pairs "
        "PlanarFlow Point Posterior Prior each_kl make_posterior total_kl"
    ),
    "whvi.predictive": (
        "Ensemble Prediction Reliability SelectiveCurve auroc brier coverage crps_gaussian crps_samples ece "
        "error_rate interval_width mnll predict quantile_calibration reliability rmse selective_curve sharpness"
    ),
    "whvi.sklearn": "WHVIClassifier WHVIRegressor",
    "whvi.structure": (
        "Fastfood KernelNoise OrthogonalRandomFeatures Plan RandomOperator Structure StructuredMatrix make_plan parse"
    ),
    "whvi.testing": (
        "DensePrior GaussianLaw LayerContract LinearGaussian MatrixCase PosteriorContract PriorCase "
        "StructureContract assert_close assert_estimate assert_moments assert_uncorrelated design_matrix perturb "
        "summed_design"
    ),
    "whvi_paper.data": "DATASETS Data DataError Split Task load split",
    "whvi_paper.report": "comparison_table entries_json markdown terminal_tables tone write_html",
}
"""All that version 0.1 exported, from the ``__all__`` of its packages."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", IN_0_1)
def test_public_names_of_0_1_are_there(module: str) -> None:
    found = import_module(module)
    assert [name for name in IN_0_1[module].split() if not hasattr(found, name)] == []


def test_energy_is_a_plain_sum() -> None:
    means, log_stds = [torch.tensor([1.0, 2.0]), torch.ones(3)], [torch.zeros(2), torch.ones(3)]
    with pytest.warns(DeprecationWarning, match="whvi.ops.energy is a sum in plain torch now"):
        found = whvi.ops.energy(means, log_stds, 3.0, 0.5, -1.0, 0.25)
    wanted = sum(
        3.0 * m * m + 0.5 * math.exp(2.0 * s) - s + 0.25
        for mean, log_std in zip(means, log_stds, strict=True)
        for m, s in zip(mean.tolist(), log_std.tolist(), strict=True)
    )
    assert float(found) == pytest.approx(wanted, rel=1e-6)


def test_the_page_of_0_1_is_still_made() -> None:
    with pytest.warns(DeprecationWarning, match="whvi.page.frame will be removed"):
        page = import_module("whvi.page").frame("a < b", "<p>body</p>", "p { color: red }")
    assert "<title>a &lt; b</title>" in page
    assert "<style>p { color: red }</style>\n<p>body</p>" in page
