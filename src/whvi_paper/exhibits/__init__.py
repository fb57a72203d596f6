"""The tables and figures of the paper: one module for each, and here their names."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from whvi.errors import ArgumentError
from whvi_paper.blocks import Shown
from whvi_paper.exhibits import (
    approximation,
    capacity,
    classification,
    complexity,
    convnets,
    covariance,
    filters,
    gaussian_processes,
    gradient_variance,
    inference_time,
    joined_layers,
    out_of_distribution,
    prediction_cost,
    priors,
    process_cost,
    protocol,
    reliability,
    rival_steps,
    structures,
    tensor,
    terms,
    toy,
    transform_time,
    uci_regression,
    uci_shallow,
    uci_standard,
    uci_widths,
    yacht_width,
)
from whvi_paper.images.runs import cpu_seconds
from whvi_paper.jobs import Job
from whvi_paper.report.claims import claims
from whvi_paper.store import PUBLISHED, Record, Store


class Exhibit(Protocol):
    """What a module of an exhibit has."""

    NAME: str
    TITLE: str
    SOURCE: str
    """Where it is in the paper."""

    def jobs(self, profile: str) -> list[Job]:
        """What is to be computed, for a profile of ``whvi_paper.recipe``."""

    def show(self, records: Sequence[Record]) -> Shown:
        """What there is to see; some records may be missing, but not all."""


_MODULES = (
    covariance, complexity, structures, tensor, toy, uci_regression, protocol, rival_steps, yacht_width, uci_shallow,
    uci_widths, classification, terms, convnets, reliability, out_of_distribution, filters, capacity, inference_time,
    prediction_cost, transform_time, approximation, gaussian_processes, process_cost, uci_standard,
    gradient_variance, priors, joined_layers,
)  # fmt: skip
EXHIBITS: dict[str, Exhibit] = {module.NAME: cast(Exhibit, module) for module in _MODULES}
"""All exhibits by name, in the order of the report."""
_GRIDS = (
    structures, tensor, uci_regression, yacht_width, uci_shallow, uci_widths, classification, terms, capacity, protocol,
)  # fmt: skip
WITH_PROTOCOL = [module.NAME for module in _GRIDS]
"""Those that the profile "paper" has something to say of."""


def find(name: str) -> Exhibit:
    """The exhibit of that name."""
    if name not in EXHIBITS:
        raise ArgumentError(f"exhibit {name!r} is unknown; use one of: {', '.join(EXHIBITS)}")
    return EXHIBITS[name]


def show(name: str, store: Store, profile: str = "recipe") -> Shown:
    """An exhibit from the records that are there."""
    exhibit = find(name)
    jobs = exhibit.jobs(profile)
    records = store.records(jobs)
    nothing = Shown(exhibit.NAME, exhibit.TITLE, exhibit.SOURCE, "Not computed yet.", ())
    shown = exhibit.show(records) if records else nothing
    if profile == "paper":
        told = "Profile paper: trained by the paper's protocol, as the exhibit `protocol` says, where the text differs."
        shown = replace(shown, text=f"{told} {shown.text}")
    if profile not in PUBLISHED:
        shown = replace(shown, text=f"Profile {profile}: far fewer steps than the published numbers. {shown.text}")
    missing = sum(len(job.inputs) for job in jobs) - len(records)
    facts = {**shown.provenance, **provenance(records)}
    spent = {record["name"]: cpu_seconds(record) for record in records}
    return replace(shown, missing=missing, failed=store.failed(jobs), cpu_seconds=spent, provenance=facts)


def provenance(records: Sequence[Record]) -> dict[str, str]:
    """Versions and days of records: all values that occur, in order."""
    facts: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for key, value in record["versions"].items():
            facts[key].add(value)
        facts["computed"].add(record["finished"][:10])
        if "data_sha256" in record["results"]:
            facts[f"sha256 of {record['inputs']['dataset']}"].add(record["results"]["data_sha256"])
    return {key: ", ".join(sorted(values)) for key, values in facts.items()}


def show_all(results: Path, profile: str = "recipe") -> list[Shown]:
    """All exhibits that have something to show, from records under a folder; first, of complete ones, the claims."""
    store = Store(results)
    shown = (show(name, store, profile) for name in (WITH_PROTOCOL if profile == "paper" else EXHIBITS))
    found = [one for one in shown if one.blocks and one.provenance]
    return [claims(found), *found] if found and profile == "recipe" else found
