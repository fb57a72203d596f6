"""The numbers that the paper prints, as (mean, std), and the constant by which its regression MNLL is off."""

from math import log, log2, pi

MNLL_OFFSET = 0.5 * (log(2 * pi) - log2(pi))
"""0.0932 nats for each output: the authors' likelihood has log2(pi) where log(2 pi) belongs."""
OFFSET_METHODS = ("whvi", "mfg", "mcd")
"""Those that were run with that likelihood, and our variations "whvi-..."; NNG was run with other code."""

Pair = tuple[float, float]

REGRESSION_DATASETS = ("boston", "concrete", "energy", "kin8nm", "naval", "powerplant", "protein", "yacht")
CLASSIFICATION_DATASETS = ("drive", "eeg", "letter", "magic", "miniboo", "mocap")
WIDTHS = (64, 128, 256, 512)


def _rows(text: str) -> dict[tuple[str, ...], list[Pair | None]]:
    """Lines of words and pairs: "mcd 64 | 3.80 0.88 | ..." with "-" where nothing is printed."""
    found: dict[tuple[str, ...], list[Pair | None]] = {}
    for line in text.strip().splitlines():
        words, *fields = line.split("|")
        pairs = (field.split() for field in fields)
        found[tuple(words.split())] = [None if p == ["-"] else (float(p[0]), float(p[1])) for p in pairs]
    return found


# Table "Test error of Bayesian DNN with 2 hidden layers on regression datasets": columns as REGRESSION_DATASETS.
_ERROR = _rows("""
mcd 64   | 3.80 0.88 | 5.43 0.69 | 2.13 0.12 | 0.17 0.22 | 0.07 0.00 | - | 4.36 0.12 | 2.02 0.51
mcd 128  | 3.91 0.86 | 5.12 0.79 | 2.07 0.11 | 0.09 0.00 | 0.30 0.30 | 3.97 0.14 | 4.23 0.10 | 1.90 0.54
mcd 256  | 3.62 1.01 | 5.03 0.74 | 2.04 0.11 | 0.10 0.00 | 0.07 0.00 | 3.91 0.11 | 4.09 0.11 | 2.09 0.66
mcd 512  | 3.56 0.85 | 4.81 0.79 | 2.03 0.12 | 0.09 0.00 | 0.07 0.00 | 3.90 0.10 | 3.87 0.11 | 2.09 0.55
mfg 64   | 4.06 0.72 | 6.87 0.54 | 2.42 0.12 | 0.11 0.00 | 0.01 0.00 | 4.38 0.12 | 4.85 0.12 | 4.31 0.62
mfg 128  | 4.47 0.85 | 8.01 0.41 | 3.10 0.14 | 0.12 0.00 | 0.01 0.00 | 4.52 0.13 | 4.93 0.11 | 7.01 1.22
mfg 256  | 5.27 0.98 | 9.41 0.54 | 4.03 0.10 | 0.13 0.00 | 0.01 0.00 | 4.79 0.12 | 5.07 0.12 | 8.71 1.31
mfg 512  | 6.04 0.90 | 10.84 0.46 | 4.90 0.11 | 0.16 0.00 | 0.01 0.00 | 5.53 0.16 | 5.26 0.10 | 10.34 1.45
nng 64   | 3.20 0.26 | 6.90 0.59 | 1.54 0.18 | 0.07 0.00 | 0.00 0.00 | 3.94 0.05 | 3.90 0.02 | 3.57 0.70
nng 128  | 3.56 0.43 | 8.21 0.55 | 1.96 0.28 | 0.07 0.00 | 0.00 0.00 | 4.23 0.09 | 4.57 0.47 | 5.16 1.48
nng 256  | 4.87 0.94 | 8.18 0.57 | 3.41 0.55 | 0.07 0.00 | 0.00 0.00 | 4.07 0.00 | 4.88 0.00 | 5.60 0.65
nng 512  | 5.19 0.62 | 11.67 2.06 | 5.12 0.37 | 0.10 0.00 | 0.00 0.00 | 4.97 0.00 | - | 5.91 0.80
whvi 64  | 3.33 0.82 | 5.24 0.77 | 0.73 0.11 | 0.08 0.00 | 0.01 0.00 | 4.07 0.11 | 4.49 0.12 | 0.82 0.18
whvi 128 | 3.14 0.71 | 4.70 0.72 | 0.58 0.07 | 0.08 0.00 | 0.01 0.00 | 4.00 0.12 | 4.36 0.11 | 0.69 0.16
whvi 256 | 2.99 0.85 | 4.63 0.78 | 0.52 0.07 | 0.08 0.00 | 0.01 0.00 | 3.95 0.12 | 4.24 0.11 | 0.76 0.13
whvi 512 | 2.99 0.69 | 4.51 0.80 | 0.51 0.04 | 0.07 0.00 | 0.01 0.00 | 3.96 0.12 | 4.14 0.09 | 0.71 0.16
""")
# Table "Test MNLL of Bayesian DNN with 2 hidden layers on regression datasets".
_MNLL = _rows("""
mcd 64   | 5.67 2.35 | 3.19 0.28 | 4.19 0.15 | -0.78 0.69 | -2.68 0.00 | - | 2.79 0.01 | 2.85 1.02
mcd 128  | 6.90 2.93 | 3.20 0.36 | 4.15 0.15 | -0.87 0.02 | -1.00 2.27 | 2.74 0.05 | 2.76 0.02 | 2.95 1.27
mcd 256  | 6.60 3.59 | 3.31 0.45 | 4.13 0.15 | -0.70 0.05 | -2.70 0.00 | 2.75 0.04 | 2.72 0.01 | 3.79 1.88
mcd 512  | 7.28 3.31 | 3.45 0.59 | 4.13 0.17 | -0.76 0.03 | -2.71 0.00 | 2.77 0.04 | 2.68 0.02 | 3.76 1.65
mfg 64   | 2.83 0.33 | 3.26 0.08 | 4.42 0.10 | -0.92 0.02 | -6.24 0.01 | 2.80 0.03 | 2.90 0.01 | 2.85 0.24
mfg 128  | 2.99 0.41 | 3.41 0.05 | 4.91 0.09 | -0.83 0.02 | -6.23 0.01 | 2.83 0.03 | 2.92 0.01 | 3.38 0.29
mfg 256  | 3.33 0.53 | 3.57 0.07 | 5.44 0.05 | -0.69 0.01 | -6.22 0.01 | 2.89 0.02 | 2.95 0.01 | 3.65 0.32
mfg 512  | 3.69 0.54 | 3.73 0.05 | 5.83 0.05 | -0.49 0.01 | -6.19 0.01 | 3.04 0.03 | 2.98 0.01 | 3.86 0.31
nng 64   | 2.69 0.06 | 3.40 0.15 | 1.95 0.08 | -1.14 0.05 | -5.83 1.49 | 2.80 0.01 | 2.78 0.01 | 2.71 0.17
nng 128  | 2.72 0.09 | 3.56 0.08 | 2.11 0.12 | -1.19 0.04 | -6.52 0.09 | 2.86 0.02 | 2.95 0.12 | 3.06 0.27
nng 256  | 3.04 0.22 | 3.52 0.07 | 2.64 0.17 | -1.19 0.03 | -5.73 0.21 | 2.84 0.00 | 3.02 0.01 | 3.15 0.13
nng 512  | 3.13 0.14 | 3.91 0.20 | 3.07 0.07 | -0.80 0.00 | -5.30 0.05 | 3.51 0.00 | - | 3.21 0.14
whvi 64  | 3.68 1.40 | 3.19 0.34 | 2.18 0.37 | -1.13 0.02 | -6.25 0.01 | 2.73 0.03 | 2.82 0.01 | 2.56 1.33
whvi 128 | 4.33 1.80 | 3.17 0.37 | 2.00 0.60 | -1.19 0.04 | -6.25 0.01 | 2.71 0.03 | 2.79 0.01 | 1.80 1.01
whvi 256 | 4.99 2.65 | 3.35 0.59 | 2.06 0.72 | -1.23 0.04 | -6.25 0.01 | 2.70 0.03 | 2.77 0.01 | 1.53 0.53
whvi 512 | 5.41 2.30 | 3.33 0.56 | 2.05 0.46 | -1.22 0.04 | -6.25 0.01 | 2.70 0.03 | 2.74 0.01 | 1.37 0.57
""")
# Table "Test RMSE and test MNLL for regression datasets following the setup in (Lobato2015)": one hidden layer.
_SHALLOW_ERROR = _rows("""
mcd  | 3.40 0.66 | 4.60 0.53 | 1.18 0.03 | 0.09 0.00 | 0.00 0.00 | 4.20 0.12 | 4.35 0.04 | 1.72 0.32
mfg  | 3.04 0.64 | 5.24 0.53 | 1.52 0.09 | 0.10 0.00 | 0.01 0.00 | 4.23 0.13 | 4.74 0.05 | 1.78 0.45
nng  | 2.74 0.12 | 5.02 0.12 | 0.48 0.02 | 0.08 0.00 | 0.00 0.00 | 3.89 0.04 | 4.10 0.00 | 0.98 0.08
whvi | 2.56 0.15 | 5.01 0.25 | 1.20 0.07 | 0.12 0.01 | 0.01 0.00 | 4.11 0.12 | 4.64 0.07 | 0.96 0.20
""")
_SHALLOW_MNLL = _rows("""
mcd  | 5.04 1.76 | 2.96 0.23 | 3.00 0.07 | -1.09 0.04 | -9.93 0.01 | 2.76 0.03 | 2.80 0.01 | 2.73 0.74
mfg  | 3.19 0.89 | 3.03 0.15 | 3.49 0.11 | -1.01 0.04 | -6.48 0.02 | 2.77 0.03 | 2.89 0.01 | 2.02 0.46
nng  | 2.45 0.03 | 3.04 0.02 | 1.42 0.00 | -1.15 0.00 | -7.08 0.03 | 2.78 0.01 | 2.84 0.00 | 2.32 0.00
whvi | 2.55 0.15 | 2.95 0.06 | 3.01 0.12 | -0.78 0.10 | -6.25 0.01 | 2.74 0.03 | 2.86 0.01 | 1.28 0.22
""")
# Table "Results of Bayesian DNN on 6 classification datasets": error, then MNLL; columns as CLASSIFICATION_DATASETS.
_CLASSIFICATION = _rows("""
mcd 2 64   | 0.19 0.11 | 0.16 0.01 | 0.45 0.05 | 0.13 0.02 | 0.07 0.00 | 0.02 0.02 | 0.52 0.24 | 0.36 0.02 | 1.27 0.26 | 0.37 0.12 | 0.18 0.00 | 0.11 0.10
mcd 2 128  | 0.17 0.07 | 0.19 0.11 | 0.45 0.04 | 0.16 0.08 | 0.15 0.21 | 0.04 0.07 | 0.47 0.19 | 0.36 0.09 | 1.39 0.22 | 0.33 0.04 | 0.24 0.17 | 0.10 0.11
mcd 2 256  | 0.16 0.09 | 0.20 0.15 | 0.45 0.06 | 0.13 0.01 | 0.07 0.00 | 0.16 0.13 | 0.50 0.29 | 0.33 0.08 | 1.32 0.25 | 0.35 0.09 | 0.17 0.00 | 0.29 0.21
mcd 2 512  | 0.18 0.11 | 0.18 0.15 | 0.44 0.02 | 0.18 0.10 | 0.07 0.00 | 0.03 0.06 | 0.47 0.27 | 0.95 1.63 | 1.41 0.17 | 0.40 0.06 | 0.20 0.04 | 0.17 0.22
mcd 3 64   | 0.34 0.10 | 0.13 0.01 | 0.50 0.06 | 0.16 0.07 | 0.08 0.02 | 0.09 0.09 | 0.88 0.25 | 0.55 0.61 | 1.56 0.28 | 0.42 0.16 | 0.20 0.05 | 0.18 0.15
mcd 3 128  | 0.32 0.10 | 0.21 0.14 | 0.48 0.09 | 0.16 0.07 | 0.23 0.28 | 0.11 0.19 | 0.86 0.28 | 1.46 2.78 | 1.40 0.34 | 0.44 0.13 | 0.28 0.18 | 0.34 0.28
mcd 3 256  | 0.32 0.21 | 0.23 0.17 | 0.43 0.05 | 0.14 0.00 | 0.23 0.28 | 0.28 0.26 | 0.87 0.51 | 0.40 0.09 | 1.34 0.19 | 0.62 0.07 | 0.31 0.22 | 0.61 0.48
mcd 3 512  | 0.36 0.09 | 0.14 0.11 | 0.49 0.06 | 0.14 0.01 | 0.23 0.28 | 0.23 0.12 | 0.93 0.27 | 0.74 0.78 | 1.92 0.23 | 1.02 0.15 | 0.30 0.20 | 0.45 0.27
whvi 2 64  | 0.03 0.01 | 0.25 0.01 | 0.43 0.01 | 0.13 0.01 | 0.10 0.00 | 0.08 0.01 | 0.14 0.04 | 0.61 0.28 | 1.07 0.02 | 0.32 0.02 | 0.23 0.01 | 0.28 0.02
whvi 2 128 | 0.02 0.00 | 0.21 0.01 | 0.41 0.01 | 0.13 0.01 | 0.09 0.00 | 0.05 0.00 | 0.09 0.02 | 0.45 0.01 | 1.02 0.02 | 0.32 0.02 | 0.22 0.01 | 0.17 0.01
whvi 2 256 | 0.01 0.00 | 0.19 0.01 | 0.40 0.01 | 0.13 0.01 | 0.08 0.00 | 0.03 0.00 | 0.09 0.03 | 0.76 0.92 | 0.99 0.01 | 0.31 0.02 | 0.20 0.00 | 0.12 0.01
whvi 2 512 | 0.01 0.00 | 0.17 0.01 | 0.40 0.01 | 0.13 0.01 | 0.08 0.00 | 0.02 0.00 | 0.08 0.03 | 0.52 0.37 | 0.97 0.01 | 0.31 0.01 | 0.19 0.01 | 0.08 0.01
whvi 3 64  | 0.03 0.00 | 0.33 0.05 | 0.42 0.01 | 0.13 0.01 | 0.10 0.00 | 0.07 0.01 | 0.12 0.02 | 0.61 0.05 | 1.02 0.02 | 0.32 0.01 | 0.23 0.01 | 0.24 0.02
whvi 3 128 | 0.02 0.00 | 0.38 0.09 | 0.41 0.01 | 0.13 0.01 | 0.09 0.00 | 0.04 0.00 | 0.09 0.02 | 0.64 0.07 | 0.98 0.01 | 0.31 0.02 | 0.22 0.01 | 0.15 0.01
whvi 3 256 | 0.05 0.09 | 0.45 0.01 | 0.39 0.01 | 0.13 0.01 | 0.08 0.00 | 0.02 0.00 | 0.20 0.34 | 0.69 0.00 | 0.94 0.02 | 0.31 0.02 | 0.20 0.01 | 0.09 0.01
whvi 3 512 | 0.01 0.00 | 0.45 0.01 | 0.38 0.01 | 0.13 0.01 | 0.08 0.00 | 0.02 0.00 | 0.05 0.02 | 0.69 0.00 | 0.90 0.01 | 0.32 0.01 | 0.19 0.01 | 0.06 0.01
""")  # noqa: E501 (a row of the table is a row here)
STRUCTURES: dict[str, Pair] = {
    "mcd": (0.097, 0.249),
    "GH": (0.226, 0.773),
    "S_var H G H": (0.043, 0.159),
    "S_var H G H S_var H": (0.061, 0.190),
    "S_opt H G H": (0.054, 0.199),
    "S_opt H G H S_opt H": (0.031, 0.146),
    "whvi": (0.026, 0.094),
}
"""Table of the ablation, 2 x 64: test error and MNLL, without a spread."""

# Table "Test performance of different Bayesian CNNs", CIFAR-10: test error in per cent, test MNLL; no spread.
_CONVNETS: dict[tuple[str, str], tuple[float | None, float | None]] = {
    ("vgg16", "mfg"): (16.82, 0.6443),
    ("vgg16", "mcd"): (21.47, 0.8213),
    ("vgg16", "nng"): (15.21, 0.6374),
    ("vgg16", "whvi"): (12.85, 0.6995),
    ("alexnet", "mcd"): (13.30, 0.9590),
    ("alexnet", "nng"): (20.36, None),
    ("alexnet", "whvi"): (13.56, 0.6164),
    ("alexnet", "nf-whvi"): (12.72, 0.6596),
    ("resnet18", "mcd"): (10.71, 0.8468),
    ("resnet18", "nng"): (None, None),
    ("resnet18", "whvi"): (11.46, 0.5513),
    ("resnet18", "nf-whvi"): (11.42, 0.4908),
}
CONVNET_DECIMALS = 4
"""Of the MNLL, and of the error as a share."""

FILTERS: dict[str, Pair] = {"mcd": (0.281, 0.882), "whvi": (0.427, 1.223), "low-rank-mcd": (0.469, 1.434)}
"""Figure "Inference of convolutional filters", CIFAR-10: test error and MNLL by what the filters have; no spread."""
FILTER_DECIMALS = 3


def regression(method: str, dataset: str, metric: str, depth: int, width: int) -> Pair | None:
    """What the paper prints for a network on a regression dataset, or None; MNLL as printed.

    The authors' code has its own RMSE and MNLL, over all functions: the same numbers stand beside ours of that kind.

    >>> regression("whvi", "yacht", "rmse", 2, 128)
    (0.69, 0.16)
    """
    errors, densities = (_ERROR, _SHALLOW_ERROR), (_MNLL, _SHALLOW_MNLL)
    tables = {"rmse": errors, "rmse_of_samples": errors, "mnll": densities, "expected_nll": densities}
    if metric not in tables or dataset not in REGRESSION_DATASETS:
        return None
    deep, shallow = tables[metric]
    column = REGRESSION_DATASETS.index(dataset)
    if depth == 1 and width == shallow_width(dataset):
        row = shallow.get((method,))
    else:
        row = deep.get((method, str(width))) if depth == 2 else None
    return None if row is None else row[column]


def shallow_width(dataset: str) -> int:
    """Units of the single hidden layer: 50, and 100 for protein."""
    return 100 if dataset == "protein" else 50


def classification(method: str, dataset: str, metric: str, depth: int, width: int) -> Pair | None:
    """What the paper prints for a network on a classification dataset, or None.

    >>> classification("whvi", "letter", "mnll", 3, 512)
    (0.9, 0.01)
    """
    row = _CLASSIFICATION.get((method, str(depth), str(width)))
    halves = {"error": 0, "mnll": 6, "expected_nll": 6}
    if row is None or metric not in halves or dataset not in CLASSIFICATION_DATASETS:
        return None
    return row[CLASSIFICATION_DATASETS.index(dataset) + halves[metric]]


def convnet(method: str, model: str, metric: str) -> float | None:
    """What the paper prints for a convolutional network on CIFAR-10, or None; the error as a share.

    >>> convnet("whvi", "alexnet", "error"), convnet("whvi", "alexnet", "mnll")
    (0.1356, 0.6164)
    """
    error, mnll = _CONVNETS.get((model, method), (None, None))
    share = None if error is None else round(error / 100, CONVNET_DECIMALS)
    return {"error": share, "mnll": mnll}.get(metric)


def corrected(method: str, printed: float, outputs: int) -> float:
    """A printed regression MNLL, brought to nats: + 0.0932 for each output, where it was computed so."""
    return printed + MNLL_OFFSET * outputs if method.partition("-")[0] in OFFSET_METHODS else printed
