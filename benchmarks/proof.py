"""The statistical promises at full size: ``make proof``, or ``python benchmarks/proof.py``.

- Calibration: ranks of the truth among draws of the posterior are uniform for a full covariance, and not for a diagonal
  one (``sbc.py``, whose problem this is).
- Coverage: intervals of ``whvi.predict`` for rows that were not seen hold the share of targets that they name.
- KL: every ``kl`` is the mean of log q - log p over draws, with densities that torch computes.

Writes ``results/bench/proof.json``; exit code 1 where something does not hold.
"""

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import torch

import sbc
import whvi
from whvi.likelihoods import Gaussian
from whvi.posterior import PlanarFlow, make_posterior
from whvi.testing import perturb
from whvi.testing.posterior import DensePrior, draws_with_density, log_ratios
from whvi_paper.bench.record import keep

RECORD = Path(__file__).parent.parent / "results/bench/proof.json"
REPLICATIONS, FUNCTIONS, DRAWS, CALLS = 1000, 256, 10**7, 200
LEVELS = (0.5, 0.8, 0.9, 0.95)
POSTERIORS = ("diagonal", "low_rank:2", "full", "planar:2", "planar:2:full")
SIGMAS = 4.0
"""Standard errors that an estimate may be off."""
UNIFORM, FOUND_OUT = 1e-3, 1e-4
"""The p-value that a right posterior stays above, and the one that a wrong posterior falls below."""


def calibration(replications: int) -> dict[str, dict[str, float]]:
    """The p-values of all functionals, for each posterior."""
    found = {name: sbc.run(name, replications).p_value.tolist() for name in ("full", "diagonal")}
    return {name: dict(zip(sbc.FUNCTIONALS, values, strict=True)) for name, values in found.items()}


def coverage(replications: int, steps: int = 700) -> dict[str, dict[str, float]]:
    """For each level the share of targets in their interval, and how many standard errors that is off.

    One row of each dataset is held out, so that the hits are independent.
    """
    problems = [sbc.simulate(seed, sbc.ROWS + 1)[1] for seed in range(replications)]
    models = sbc.fitted([(x[:-1], y[:-1]) for x, y in problems], "full", steps)
    likelihood = Gaussian(variance=sbc.NOISE, learned=False)
    hits = torch.zeros(len(LEVELS))
    for seed, (model, (x, y)) in enumerate(zip(models, problems, strict=True)):
        prediction = whvi.predict(model.eval(), x[-1:], FUNCTIONS, likelihood=likelihood, seed=seed)
        intervals = [prediction.interval(level) for level in LEVELS]
        hits += torch.tensor([bool((low <= y[-1:]) & (y[-1:] <= high)) for low, high in intervals])
    return {
        f"{level:g}": {"share": share, "sigmas": (share - level) / (level * (1 - level) / replications) ** 0.5}
        for level, share in zip(LEVELS, (hits / replications).tolist(), strict=True)
    }


def divergences(draws: int) -> dict[str, dict[str, float]]:
    """For each posterior its KL, the mean over draws, and how many standard errors they differ by."""
    return {spec: divergence(spec, draws) for spec in POSTERIORS}


def divergence(spec: str, draws: int) -> dict[str, float]:
    """Of two vectors, to a prior whose covariance is not diagonal; estimates by a flow are averaged."""
    torch.manual_seed(1)
    posterior = make_posterior(spec, torch.randn(2, 2, dtype=torch.float64), log_std=-0.5)
    perturb(posterior, 0.5)
    if isinstance(posterior, PlanarFlow):
        posterior.kl_samples = 5000
    covariance = torch.tensor([[1.5, 0.4], [0.4, 0.8]], dtype=torch.float64)
    (values,) = log_ratios(draws_with_density, posterior, [covariance], draws)
    error = float(values.std()) * draws**-0.5
    with torch.no_grad():
        calls = torch.stack([posterior.kl(DensePrior(covariance)) for _ in range(CALLS)])
    total = (error**2 + float(calls.std()) ** 2 / CALLS) ** 0.5
    mean, stated = float(values.mean()), float(calls.mean())
    return {"kl": stated, "mean over draws": mean, "sigmas": (stated - mean) / total}


def holds(record: dict[str, Any]) -> dict[str, bool]:
    """Which of the promises a record keeps."""
    right, wrong = (min(record["calibration"][name].values()) for name in ("full", "diagonal"))
    return {
        "a full covariance is calibrated": right > UNIFORM,
        "a diagonal covariance is found out": wrong < FOUND_OUT,
        "intervals cover": all(abs(level["sigmas"]) < SIGMAS for level in record["coverage"].values()),
        "KL divergences are right": all(abs(kind["sigmas"]) < SIGMAS for kind in record["kl"].values()),
    }


def prove(replications: int, draws: int) -> dict[str, Any]:
    """The record."""
    start = time.process_time()
    found = {
        "calibration": calibration(replications),
        "coverage": coverage(replications),
        "kl": divergences(draws),
    }
    return {
        "replications": replications,
        "functions": FUNCTIONS,
        "draws": draws,
        **found,
        "holds": holds(found),
        "versions": {"whvi": whvi.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "kernel": str(whvi.kernel_info().isa),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    """The record at full size, and what it says."""
    torch.set_num_threads(1)
    record = prove(REPLICATIONS, DRAWS)
    keep(RECORD, record)
    print(json.dumps({name: record[name] for name in ("coverage", "kl", "holds")}, indent=1))
    sys.exit(not all(record["holds"].values()))


if __name__ == "__main__":
    main()
