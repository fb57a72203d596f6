"""The claims of the paper in one table: each with a verdict, the numbers it rests on, and whose records they are.

Where there are too few records a claim is not computed yet; what needs a GPU, or counters that this machine does not
show, is not testable here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from whvi_paper.blocks import Shown, Table, TextCell
from whvi_paper.curves import EARLY
from whvi_paper.report import judging as by
from whvi_paper.report.judging import Judge, Verdict, settled

NAME = "claims"
TITLE = "The paper's claims"
SOURCE = "The whole paper"
TEXT = (
    "“Contradicted” means that the numbers here say the opposite, “not reproduced” that they do not show it. A verdict "
    "is computed from the published numbers of the exhibit that is named (`results/runs`, or a test of this "
    "repository), by a rule that was set down beside it in `whvi_paper.report.judging`; one run, or eight splits, can "
    "be wrong about small differences."
)


class Claim(NamedTuple):
    """A claim, where the paper makes it, whose records it is judged by, and how."""

    words: str
    source: str
    record: str
    judge: Judge


CLAIMS = (
    Claim(
        "a D x D layer has O(D) parameters",
        "Section 1, Table 1",
        "complexity",
        by.exponent("whvi", "numbers", 1.0, 0.05),
    ),
    Claim(
        "its product takes O(D log D) time",
        "Section 1, Table 1",
        "complexity",
        by.exponent("whvi", "seconds", 1.11, 0.1),
    ),
    Claim(
        "the weights are correlated though q(g) is diagonal",
        "Figure 1",
        "covariance",
        settled(Verdict.REPRODUCED, "vec(W) has the covariance A Sigma A^T, checked against samples"),
    ),
    Claim(
        "q(W) is a matrix-variate Gaussian MN(M, U, V)",
        "Section 2.2, appendix A",
        "tests/nn/test_law.py",
        settled(Verdict.CONTRADICTED, "the row and column covariances are U and V, but it is another distribution"),
    ),
    Claim(
        "the root of V as the appendix prints it, with T1",
        "Appendix A",
        "tests/nn/test_law.py",
        settled(Verdict.CONTRADICTED, "T1 is made of Sigma there; the root needs Sigma^(1/2), as in Section 2.2"),
    ),
    Claim(
        "A has an LQ decomposition",
        "Appendix B",
        "tests/nn/test_law.py",
        settled(Verdict.REPRODUCED, "L diagonal, Q with orthonormal columns"),
    ),
    Claim("the permutation is not critical", "Section 2.2", "structures", by.as_good("S_opt H G P H S_opt", 0.1)),
    Claim("WHVI is the best of the structures", "Table 2", "structures", by.first_of_structures),
    Claim("WHVI is better than MCD on Sensorless Drive", "Table 2", "structures", by.always("mcd", "error", "mnll")),
    Claim("all structures but the constrained G H do well", "Section 2.4", "structures", by.worst_of_structures),
    Claim(
        "WHVI reaches better solutions than a tensor factorisation",
        "Figure 3",
        "tensor",
        by.always("tensor", "error", "mnll"),
    ),
    Claim("it gets there faster, too", "Figure 3", "tensor", by.always("tensor", EARLY)),
    Claim(
        "a vector of D weights, reshaped, takes O(sqrt(D) log D) time",
        "Section 2.5",
        "whvi/structure/matrix.py",
        settled(Verdict.CONTRADICTED, "each of the D inputs has to be read, so it is O(D) with O(sqrt(D)) parameters"),
    ),
    Claim(
        "with flows the KL is analytically tractable",
        "Section 2.5",
        "tests/posterior/test_flow.py",
        settled(Verdict.CONTRADICTED, "the end of a flow is nonlinear in its start: it has to be sampled"),
    ),
    Claim(
        "flows lose local reparameterisation",
        "Section 2.5",
        "tests/nn/test_contracts.py",
        settled(
            Verdict.CONTRADICTED, "what it brings, a draw for each example, they keep: a draw of g costs one activation"
        ),
    ),
    Claim(
        "the log-determinant of a planar flow as it is printed",
        "Appendix C",
        "tests/posterior/test_flow.py",
        settled(Verdict.CONTRADICTED, "the right-hand side lacks its logarithm"),
    ),
    Claim("1541, 4141, 35k and 17k parameters of the toy's networks", "Figure 4", "toy", by.parameter_counts),
    Claim("WHVI has a sensible uncertainty, MFG and MCD a worse one", "Figure 4", "toy", by.nearest_to_truth),
    Claim("its setup gives the numbers of WHVI in Table 3", "Table 3", "protocol", by.printed_recipe),
    Claim(
        "MNLL of regression as it is printed",
        "Tables 3 and of the supplement",
        "whvi_paper/printed.py",
        settled(
            Verdict.CONTRADICTED, "powerplant has RMSE 4.00, so at least 2.80 nats, and 2.71 is printed: 0.0932 too low"
        ),
    ),
    Claim(
        "WHVI outperforms MCD on the majority of datasets",
        "Section 3.2",
        "uci-regression",
        by.majority("mcd", "rmse", "mnll"),
    ),
    Claim(
        "WHVI outperforms NNG on the majority of datasets",
        "Section 3.2",
        "uci-regression",
        by.majority("nng", "rmse", "mnll"),
    ),
    Claim("MNLL on yacht improves with the width of WHVI", "Figure 5", "yacht-width", by.better_with_width),
    Claim("WHVI behaves well on yacht while others struggle", "Figure 5", "yacht-width", by.lowest_at_all_widths),
    Claim(
        "mean field is over-regularised in wide networks",
        "Section 1, supplement",
        "uci-widths",
        by.mean_field_overregularised,
    ),
    Claim(
        "more layers and units do not overfit and perform better",
        "Supplement",
        "capacity",
        by.bigger_is_better("mnll"),
    ),
    Claim("they are better during training, too", "Supplement", "capacity", by.bigger_is_better(EARLY)),
    Claim(
        "there are no problems with where training starts",
        "Supplement",
        "results/bench/recipe.json",
        settled(
            Verdict.NOT_REPRODUCED, "some splits of energy end in poor optima unless the weight of the KL rises slowly"
        ),
    ),
    Claim("the bound is suitable for model selection", "Supplement", "capacity", by.bound_chooses),
    Claim(
        "WHVI in linear maps of CNNs costs no error and no calibration", "Table 4", "convnets", by.no_loss_in_convnets
    ),
    Claim(
        "AlexNet shrinks from 23.3M parameters to 9.9 %, to 10.2 % with 3 flows",
        "Section 3.3",
        "tests/nn/test_linear.py",
        settled(Verdict.REPRODUCED, "23,272,266, 2,310,996 (9.93 %) and 2,366,301 (10.17 %)"),
    ),
    Claim(
        "with WHVI on its filters, too, it has 189k parameters",
        "Section 3.3",
        "tests/paper/exhibits/test_filters.py",
        settled(Verdict.NOT_REPRODUCED, "its structure has 106,964; how the rest comes about is not said"),
    ),
    Claim("flows improve the error of CNNs", "Table 4", "convnets", by.flows_help),
    Claim("WHVI on filters degrades", "Section 3.3", "filters", by.filters("whvi", "mcd")),
    Claim("low-rank MCD on filters is worse than WHVI", "Section 3.3", "filters", by.filters("low-rank-mcd", "whvi")),
    Claim("on a CPU the transform beats matmul beyond D = 512 to 1024", "Supplement", "transform-time", by.break_even),
    Claim("on a GPU it is faster at all D", "Supplement", "–", settled(Verdict.UNTESTABLE, "there is no GPU")),
    Claim(
        "WHVI predicts fastest in wide networks, NNG slowest",
        "Figure on inference time",
        "inference-time",
        by.fastest_prediction,
    ),
    Claim("AlexNet with WHVI predicts 51 % faster than with MCD", "Section 3.4", "prediction-cost", by.half_faster),
    Claim(
        "up to 33 % less energy, 85 % use of the GPU",
        "Section 3.4",
        "–",
        settled(Verdict.UNTESTABLE, "there is no GPU, and no counter of energy"),
    ),
    Claim("W approximates any matrix, as well at large D", "Appendix B", "approximation", by.approximates),
    Claim(
        "WHVI largely outperforms VI of Fourier features in GPs",
        "Supplement",
        "gaussian-processes",
        by.processes("vi", True),
    ),
    Claim("it does not reach inducing points", "Supplement", "gaussian-processes", by.processes("svgp", False)),
    Claim(
        "N features take O(sqrt(N)) parameters", "Supplement", "process-cost", by.exponent("whvi", "numbers", 0.5, 0.05)
    ),
    Claim("inducing points take O(M) space", "Supplement", "process-cost", by.exponent("svgp", "bytes", 1.0, 0.05)),
    Claim("they take O(M^3) time", "Supplement", "process-cost", by.exponent("svgp", "seconds", 3.0, 0.05)),
    Claim(
        "local reparameterisation reduces the variance of gradients",
        "Section 2.3",
        "gradient-variance",
        by.smaller_variance,
    ),
    Claim(
        "a prior of constant variance for W is no improvement",
        "Supplement",
        "priors",
        by.no_improvement("whvi-constant"),
    ),
)


def claims_table(shown: Sequence[Shown]) -> Table:
    """A row for each claim."""
    numbers = {one.name: [entry for entry in one.numbers if entry.n] for one in shown}
    rows = []
    for claim in CLAIMS:
        verdict, told = claim.judge(numbers.get(claim.record, []))
        texts = (claim.words, claim.source, verdict.value, told or "–", claim.record)
        rows.append([TextCell(text) for text in texts])
    return Table(TITLE, ("claim", "where", "verdict", "what was found", "record"), rows)


def claims(shown: Sequence[Shown]) -> Shown:
    """The table as a part of a report of these exhibits."""
    return Shown(NAME, TITLE, SOURCE, TEXT, [claims_table(shown)])
