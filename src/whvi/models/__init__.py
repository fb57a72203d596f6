"""Networks built from a layer factory, so that any treatment of their weights fits in."""

from whvi.models.convnets import MODELS, alexnet, convnet, resnet18, simple_cnn, vgg16
from whvi.models.treatments import TREATMENTS, Treatment, treatment

__all__ = [
    "MODELS",
    "TREATMENTS",
    "Treatment",
    "alexnet",
    "convnet",
    "resnet18",
    "simple_cnn",
    "treatment",
    "vgg16",
]
