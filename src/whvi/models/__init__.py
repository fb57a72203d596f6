"""Networks built from a layer factory, so that any treatment of their weights fits in."""

from whvi.models.convnets import MODELS, alexnet, convnet, resnet18, simple_cnn, vgg16
from whvi.models.counts import Count, LayerCount, count_parameters
from whvi.models.gaussian_process import POSTERIORS, RandomFeatureGP
from whvi.models.random_features import KERNELS, PROJECTIONS, RandomFeatures
from whvi.models.treatments import TREATMENTS, Treatment, treatment

__all__ = [
    "KERNELS",
    "MODELS",
    "POSTERIORS",
    "PROJECTIONS",
    "TREATMENTS",
    "Count",
    "LayerCount",
    "RandomFeatureGP",
    "RandomFeatures",
    "Treatment",
    "alexnet",
    "convnet",
    "count_parameters",
    "resnet18",
    "simple_cnn",
    "treatment",
    "vgg16",
]
