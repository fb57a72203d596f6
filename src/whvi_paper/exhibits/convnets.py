"""Bayesian convolutional networks on CIFAR-10: error, MNLL and calibration of each treatment."""

from whvi_paper.image_training import train
from whvi_paper.jobs import Job

NAME = "convnets"
TITLE = "Bayesian convolutional networks on CIFAR-10"
SOURCE = "Table 4"
EPOCHS = {"alexnet": 30, "vgg16": 10, "resnet18": 6}
METHODS = {
    "vgg16": ("whvi", "mcd", "mfg", "nng"),
    "alexnet": ("whvi", "mcd", "nf-whvi", "nng"),
    "resnet18": ("whvi", "mcd", "nf-whvi"),
}
CONFIGURATION = {"batch_size": 256, "learning_rate": 3e-3, "schedule": "one-cycle", "precision": "auto"}


def jobs(profile: str) -> list[Job]:
    """One for each network and treatment."""
    found = []
    for model, methods in METHODS.items():
        for method in methods:
            inputs = {
                "task": "image classification",
                "dataset": "cifar10",
                "model": model,
                "method": method,
                "epochs": EPOCHS[model],
                "samples": 16,
                "configuration": CONFIGURATION,
                "seed": 0,
            }
            found.append(Job(NAME, f"{method} {model}", (inputs,), train, cost=60.0))
    return found
