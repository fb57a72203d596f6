"""The networks of the paper: perceptrons by method, convolutional networks with any treatment of their weights."""

from whvi_paper.networks.convnets import MODELS, alexnet, convnet, resnet18, simple_cnn, vgg16
from whvi_paper.networks.counts import Count, LayerCount, count_parameters
from whvi_paper.networks.perceptrons import METHODS, narrow, network
from whvi_paper.networks.treatments import TREATMENTS, Treatment, treatment

__all__ = [
    "METHODS",
    "MODELS",
    "TREATMENTS",
    "Count",
    "LayerCount",
    "Treatment",
    "alexnet",
    "convnet",
    "count_parameters",
    "narrow",
    "network",
    "resnet18",
    "simple_cnn",
    "treatment",
    "vgg16",
]
