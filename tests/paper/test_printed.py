"""The paper's numbers, and the correction of its regression MNLL."""

import re
from math import e, log, pi

import pytest

from whvi_paper import printed

METHODS = ("mcd", "mfg", "nng", "whvi")
CONVNETS = r"""
    vgg16    & mfg        & $16.82\%$  & $0.6443$  \\
             & mcd        & $21.47\%$  & $0.8213$  \\
             & nng        & $15.21\%$  & $\mathbf{0.6374}$  \\
             & \hvi       & $\mathbf{12.85\%}$  & $0.6995$  \\
    alexnet  & \mcd       & $13.30\%$  & $0.9590$  \\
             & \name{nng} & $20.36\%$  & --        \\
             & \hvi       & $13.56\%$  & $\mathbf{0.6164}$  \\
             & \nf-\hvi   & $\mathbf{12.72\%}$  & $0.6596$  \\
    resnet18 & \mcd       & $\mathbf{10.71\%}$  & $0.8468$  \\
             & \name{nng} & --  & --        \\
             & \hvi       & $11.46\%$  & $0.5513$  \\
             & \nf-\hvi   & $11.42\%$  & $\mathbf{0.4908}$  \\
"""
"""The table in the paper's source, without its rules."""


FILTERS = r"""
    {W_conv with MCD -- W_lin with WHVI}          & Error = 0.281, MNLL = 0.882
    {W_conv with WHVI -- W_lin with WHVI}         & Error = 0.427, MNLL = 1.223
    {W_conv low-rank with MCD -- W_lin with WHVI} & Error = 0.469, MNLL = 1.434
"""
"""The legend of the figure on filters in the paper's source, without its lines."""


def test_filters_are_those_of_the_papers_source() -> None:
    found = re.findall(r"W_conv (low-rank )?with (\w+) .* Error = ([\d.]+), MNLL = ([\d.]+)", FILTERS)
    names = {
        f"{rank.strip()}-{method.lower()}".strip("-"): (float(error), float(mnll))
        for rank, method, error, mnll in found
    }
    assert names == printed.FILTERS


def test_every_table_is_a_full_grid() -> None:
    for metric in ("rmse", "mnll"):
        cells = {
            (method, width, dataset): printed.regression(method, dataset, metric, 2, width)
            for method in METHODS for width in printed.WIDTHS for dataset in printed.REGRESSION_DATASETS
        }  # fmt: skip
        assert {key for key, pair in cells.items() if pair is None} == {
            ("mcd", 64, "powerplant"),
            ("nng", 512, "protein"),
        }
        for dataset in printed.REGRESSION_DATASETS:
            for method in METHODS:
                assert printed.regression(method, dataset, metric, 1, printed.shallow_width(dataset)) is not None
    for metric in ("error", "mnll"):
        for dataset in printed.CLASSIFICATION_DATASETS:
            for depth in (2, 3):
                for width in printed.WIDTHS:
                    for method in ("mcd", "whvi"):
                        assert printed.classification(method, dataset, metric, depth, width) is not None


@pytest.mark.parametrize(
    ("cell", "pair"),
    [
        (("whvi", "powerplant", "mnll", 2, 128), (2.71, 0.03)),
        (("nng", "naval", "mnll", 2, 128), (-6.52, 0.09)),
        (("mcd", "naval", "mnll", 1, 50), (-9.93, 0.01)),
        (("whvi", "protein", "rmse", 1, 100), (4.64, 0.07)),
        (("mfg", "yacht", "rmse", 2, 512), (10.34, 1.45)),
        (("whvi", "protein", "rmse", 1, 50), None),
        (("whvi", "yacht", "rmse", 3, 128), None),
        (("whvi", "yacht", "ece", 2, 128), None),
        (("nf-whvi", "yacht", "rmse", 2, 128), None),
        (("whvi", "letter", "mnll", 2, 128), None),
    ],
)
def test_known_cells_of_regression(cell: tuple[str, str, str, int, int], pair: printed.Pair | None) -> None:
    assert printed.regression(*cell) == pair


@pytest.mark.parametrize(
    ("cell", "pair"),
    [
        (("whvi", "drive", "error", 3, 256), (0.05, 0.09)),
        (("mcd", "mocap", "mnll", 2, 64), (0.11, 0.10)),
        (("whvi", "eeg", "mnll", 2, 128), (0.45, 0.01)),
        (("whvi", "eeg", "rmse", 2, 128), None),
        (("whvi", "yacht", "mnll", 2, 128), None),
    ],
)
def test_known_cells_of_classification(cell: tuple[str, str, str, int, int], pair: printed.Pair | None) -> None:
    assert printed.classification(*cell) == pair


def test_convnets_are_those_of_the_papers_source() -> None:
    names = {r"\hvi": "whvi", r"\nf-\hvi": "nf-whvi", r"\mcd": "mcd", r"\name{nng}": "nng"}
    model, count = "", 0
    for line in CONVNETS.strip().splitlines():
        network, method, *fields = (field.strip() for field in line.replace(r"\\", "").split("&"))
        model = network or model
        error, mnll = (float(found[0]) if (found := re.findall(r"[\d.]+", field)) else None for field in fields)
        method = names.get(method, method)
        assert printed.convnet(method, model, "error") == (None if error is None else pytest.approx(error / 100))
        assert printed.convnet(method, model, "mnll") == mnll
        count += mnll is not None
    assert (count, sum(mnll is not None for _, mnll in printed._CONVNETS.values())) == (10, 10)
    assert printed.convnet("whvi", "alexnet", "ece") is None
    assert printed.convnet("mfg", "alexnet", "mnll") is None


def test_correction_is_per_output_and_only_where_it_is_due() -> None:
    assert round(printed.MNLL_OFFSET, 4) == 0.0932
    for method in ("whvi", "mfg", "mcd"):
        for outputs in (1, 2):
            assert printed.corrected(method, 1.0, outputs) == pytest.approx(1.0 + 0.0932 * outputs, abs=2e-4)
    assert printed.corrected("nng", 1.0, 2) == 1.0
    assert round(printed.corrected("whvi", 2.71, 1), 2) == 2.80


@pytest.mark.parametrize(("method", "dataset"), [("whvi", "powerplant"), ("whvi", "protein"), ("mfg", "protein")])
def test_corrected_density_is_that_of_the_printed_error(method: str, dataset: str) -> None:
    """A Gaussian of the right width has MNLL = 1/2 log(2 pi e RMSE^2), and no smaller one."""
    rmse, _ = printed.regression(method, dataset, "rmse", 2, 128) or (0.0, 0.0)
    mnll, _ = printed.regression(method, dataset, "mnll", 2, 128) or (0.0, 0.0)
    assert printed.corrected(method, mnll, 1) == pytest.approx(0.5 * log(2 * pi * e * rmse**2), abs=0.01)
