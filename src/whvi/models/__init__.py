"""Random features of kernels, and Gaussian processes made of them."""

from whvi.models.gaussian_process import POSTERIORS, RandomFeatureGP
from whvi.models.random_features import KERNELS, PROJECTIONS, RandomFeatures
from whvi.moved import moved_names

__all__ = ["KERNELS", "POSTERIORS", "PROJECTIONS", "RandomFeatureGP", "RandomFeatures"]
__getattr__ = moved_names(
    __name__,
    dict.fromkeys(
        (
            "MODELS", "TREATMENTS", "Count", "LayerCount", "Treatment", "alexnet", "convnet", "count_parameters",
            "resnet18", "simple_cnn", "treatment", "vgg16",
        ),
        "whvi_paper.networks",
    ),
)  # fmt: skip
