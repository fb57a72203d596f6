"""How a claim of the paper is judged: from the published numbers alone, so that the verdict changes with them."""

from whvi_paper.report.judging.accuracy import (
    always,
    as_good,
    better_with_width,
    bigger_is_better,
    bound_chooses,
    compared,
    lowest_at_all_widths,
    majority,
    mean_field_overregularised,
    nearest_to_truth,
    no_improvement,
    parameter_counts,
    printed_recipe,
    processes,
)
from whvi_paper.report.judging.cost import (
    approximates,
    break_even,
    exponent,
    fastest_prediction,
    half_faster,
    smaller_variance,
)
from whvi_paper.report.judging.images import filters, flows_help, no_loss_in_convnets
from whvi_paper.report.judging.structures import first_of_structures, worst_of_structures
from whvi_paper.report.judging.verdict import Finding, Judge, Verdict, settled, values

__all__ = [
    "Finding",
    "Judge",
    "Verdict",
    "always",
    "approximates",
    "as_good",
    "better_with_width",
    "bigger_is_better",
    "bound_chooses",
    "break_even",
    "compared",
    "exponent",
    "fastest_prediction",
    "filters",
    "first_of_structures",
    "flows_help",
    "half_faster",
    "lowest_at_all_widths",
    "majority",
    "mean_field_overregularised",
    "nearest_to_truth",
    "no_improvement",
    "no_loss_in_convnets",
    "parameter_counts",
    "printed_recipe",
    "processes",
    "settled",
    "smaller_variance",
    "values",
    "worst_of_structures",
]
