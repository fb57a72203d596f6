"""Mistakes that other libraries made, put in one at a time: each must make a small selection of tests fail.

Each mistake is an edit of one file in a copy of the package; the tree itself is never touched. Run as a script, this
file is the worker: it loads torch once, and forks for each mistake.
"""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
WORKERS = 2
FAILED = 1  # what pytest returns when tests ran and some failed; errors of collection and usage are other numbers


class Mistake(NamedTuple):
    name: str
    file: str
    """Below src/whvi."""
    old: str
    new: str


MISTAKES = (
    Mistake("none", "nn/model.py", "", ""),
    Mistake(
        "KL is a mean, not a sum",
        "posterior/kl.py",
        "return 0.5 * (quadratic + trace + (prior_log_det - size)) - half_log_det",
        "return (0.5 * (quadratic + trace + (prior_log_det - size)) - half_log_det) / size",
    ),
    Mistake(
        "KL is divided by the number of layers",
        "nn/model.py",
        "return total_kl(pairs)",
        "return total_kl(pairs) / max(len(bayesian_layers(model)), 1)",
    ),
    Mistake(
        "KL is a mean over its terms",
        "posterior/total.py",
        "    return total\n",
        "    return total / len(terms)\n",
    ),
    Mistake(
        "KL is scaled by a number of batches",
        "nn/model.py",
        "return total_kl(pairs)",
        "return total_kl(pairs) / 100",
    ),
    Mistake(
        "KL is counted once for K blocks of their own",
        "posterior/gaussian.py",
        "return kl.gaussian(quadratic, trace, self.half_log_det(), prior.log_det(self.event_shape), size)",
        "return kl.gaussian(quadratic, trace, self.half_log_det(), prior.log_det(self.event_shape), size)"
        " * (self.mean.shape[-1] / size)",
    ),
    Mistake(
        "log-variance is used as log-std where noise is drawn in the kernel",
        "nn/vectors.py",
        "wide(posterior.log_std), seed",
        "0.5 * wide(posterior.log_std), seed",
    ),
    Mistake(
        "log-variance is used as log-std in the KL",
        "posterior/gaussian.py",
        '"""Of diag(exp(2 log_std))."""\n        return prior.trace(wide(self.log_std).exp())',
        '"""Of diag(exp(2 log_std))."""\n        return prior.trace((0.5 * wide(self.log_std)).exp())',
    ),
    Mistake(
        "log-variance is used as log-std in the KL of many vectors",
        "posterior/total.py",
        "[wide(q.log_std) for",
        "[0.5 * wide(q.log_std) for",
    ),
    Mistake(
        "log-variance is used as log-std in the bias that follows a product",
        "ops/product.py",
        "bias.mean, bias.log_std, g.seed",
        "bias.mean, 0.5 * bias.log_std, g.seed",
    ),
    Mistake(
        "a penalty hides in the KL of a layer",
        "nn/base.py",
        "return total_kl(self.kl_pairs())",
        "return total_kl(self.kl_pairs()) + 1e-4 * sum(p.square().sum() for p in self.parameters())",
    ),
    Mistake(
        "a penalty hides in the formula of the KL",
        "posterior/kl.py",
        "(prior_log_det - size)) - half_log_det",
        "(prior_log_det - size)) - half_log_det + 1e-4 * quadratic",
    ),
    Mistake(
        "a small number in the logarithm of a determinant",
        "posterior/kl.py",
        "return torch.log1p(slope * projection)",
        "return torch.log1p(slope * projection + 1e-6)",
    ),
    Mistake(
        "a small number in the logarithm of a root",
        "posterior/kl.py",
        "roots.log().sum()",
        "(roots + 1e-6).log().sum()",
    ),
    Mistake(
        "all examples share one draw",
        "nn/base.py",
        'None if self.draws == "example" else ()',
        "()",
    ),
    Mistake(
        "g and the bias share one noise",
        "nn/structured.py",
        "G, SCALES = 0, BIAS + 1",
        "G, SCALES = BIAS, BIAS + 1",
    ),
    Mistake(
        "all scales share one noise",
        "nn/structured.py",
        "draw, SCALES + i,",
        "draw, SCALES,",
    ),
    Mistake(
        "a variance is used as a standard deviation in the prior",
        "posterior/prior.py",
        "else square / self.variance",
        "else square / self.variance**2",
    ),
    Mistake(
        "a variance is used as a standard deviation in draws of the prior",
        "posterior/prior.py",
        "dtype=dtype) * self.variance**0.5",
        "dtype=dtype) * self.variance",
    ),
    Mistake(
        "the log-determinant of a flow has the wrong sign",
        "posterior/kl.py",
        "- base_half_log_det - log_det",
        "- base_half_log_det + log_det",
    ),
    Mistake(
        "the log-determinant of a flow has no gradient",
        "posterior/flow.py",
        "log_det.sum() / count",
        "log_det.detach().sum() / count",
    ),
    Mistake(
        "H is applied twice on one side, and W is diagonal",
        "structure/matrix.py",
        "            y = product(x, s1, g, s2, summed=added)\n",
        "            y = (1.0 if s1 is None else s1) * g * (1.0 if s2 is None else s2) * x\n",
    ),
    Mistake(
        "a term is forgotten",
        "structure/matrix.py",
        "return pieces.expand(*x.shape[:-1], plan.terms if alike else 1, plan.columns, rows, plan.size)",
        "return pieces * (torch.arange(plan.terms) < 1)[:, None, None, None]",
    ),
    Mistake(
        "a shared vector is drawn by each layer",
        "nn/ties.py",
        "shared[vector] = first.seed, place",
        "shared[vector] = draw.seed, place",
    ),
    Mistake(
        "a layer draws alone what it shares",
        "nn/base.py",
        "            check_alone(self)\n",
        "",
    ),
    Mistake(
        "the transpose of a permutation is the permutation",
        "structure/elements.py",
        "return permutation.argsort(-1)",
        "return permutation.clone()",
    ),
    Mistake(
        "a column of a grid reads the wrong piece of x",
        "structure/matrix.py",
        "= x.unflatten(-1, (1, plan.columns, 1, plan.size))",
        "= x.unflatten(-1, (1, plan.columns, 1, plan.size)).flip(-3)",
    ),
    Mistake(
        "the KL of terms is counted twice",
        "nn/base.py",
        "return total_kl(self.kl_pairs())",
        "return total_kl(self.kl_pairs()) * (2 if hasattr(self, 'plan') and self.plan.terms > 1 else 1)",
    ),
    Mistake(
        "patches of a convolution are scrambled",
        "nn/geometry.py",
        "stacked = torch.stack(views, -1)",
        "stacked = torch.stack(views, -2)",
    ),
    Mistake(
        "a pass leaves tensors on the layer",
        "nn/base.py",
        "        x = autocast(x)\n",
        "        x = autocast(x)\n        self.last = x * next(self.parameters()).sum()\n",
    ),
    Mistake(
        "log2(pi) stands for log(2 pi) in the likelihood",
        "likelihoods/gaussian.py",
        "_LOG_2_PI = log(2.0 * pi)",
        "_LOG_2_PI = log(pi) / log(2.0)",
    ),
    Mistake(
        "H_m is not symmetric",
        "ops/orders.py",
        "own = torch.tensor([[1.0, -1.0], [-1.0, -1.0]]",
        "own = torch.tensor([[1.0, -1.0], [1.0, 1.0]]",
    ),
    Mistake(
        "a batch does not count for all rows",
        "inference/elbo.py",
        "scale = n_data / (rows * samples)",
        "scale = 1.0 / samples",
    ),
    Mistake(
        "KL is divided by the rows of the data",
        "inference/elbo.py",
        "samples), kl(model), weight)",
        "samples), kl(model) / n_data, weight)",
    ),
    Mistake(
        "the factor of the learning rate is multiplied up from step to step",
        "inference/schedules.py",
        "[base * self.decay(self.last_epoch) for base in self.base_lrs]",
        "[group['lr'] * self.decay(self.last_epoch) for group in self.optimizer.param_groups]",
    ),
    Mistake(
        "a delta of zeros changes the signs of zeros",
        "nn/beside.py",
        "return base - (0.0 - delta.to(base.dtype))",
        "return base + delta.to(base.dtype)",
    ),
    Mistake(
        "queries and values of attention get each other's deltas",
        "adapters/attention.py",
        "for _, layer in layers_of(getattr(attention, SLOT).delta)]",
        "for _, layer in layers_of(getattr(attention, SLOT).delta)]\n    deltas = [deltas[i] for i in (2, 1, 0, 3)]",
    ),
    Mistake(
        "the spread of a delta is a variance",
        "adapters/recipe.py",
        "(self.spread * _root_mean_square(target)) ** 2",
        "self.spread * _root_mean_square(target) ** 2",
    ),
    Mistake(
        "a checkpoint is given to a model that began elsewhere",
        "inference/resuming.py",
        "if found := difference(self.start, now):",
        "if found := ():",
    ),
    Mistake(
        "a folder whose files were edited is taken",
        "io/folder.py",
        'if _entry(folder / name, limit=entry.get("bytes")) != entry:',
        'if _entry(folder / name, limit=entry.get("bytes")).get("bytes") != entry.get("bytes"):',
    ),
    Mistake(
        "a report is put beside another model",
        "io/folder.py",
        "if _state(place) != (place, manifest):",
        "if not place.exists():",
    ),
    Mistake(
        "a checkpoint is written in place, and not at once",
        "io/atomic.py",
        "temporary = path.with_name(",
        "temporary = path or path.with_name(",
    ),
    Mistake(
        "what a model wrote into is handed to it again",
        "predictive/handed.py",
        "if self._versions is None or _versions(self._held) != self._versions:",
        "if self._held is None:",
    ),
    Mistake(
        "a fit hands out the rows of the caller",
        "inference/batches.py",
        "x, y = of.mapped(torch.clone, self.x), self.y",
        "x, y = self.x, self.y",
    ),
    Mistake(
        "the order of elements is not seen",
        "predictive/marks.py",
        "    if flat.nbytes <= _WHOLLY:",
        "    return (_bytes(flat.sum()),)\n    if flat.nbytes <= _WHOLLY:",
    ),
    Mistake(
        "a setting is not looked at",
        "predictive/state.py",
        "changed = _differing(self._settings[name], setting_marks(part), self._own[name])",
        "changed: list[str] = []",
    ),
    Mistake(
        "parts of a batch are taken for functions",
        "predictive/sources.py",
        "if not (self._probed or example) and self.certain:",
        "if False:",
    ),
    Mistake(
        "a model that draws for itself is one certain function",
        "predictive/functions.py",
        "            if vary(one, other):\n",
        "            if False:\n",
    ),
    Mistake(
        "two names of an ensemble become one",
        "ensemble/stack.py",
        '.replace("-", "%2D")',
        "",
    ),
    Mistake(
        "rows of targets are broadcast",
        "likelihoods/base.py",
        "if f.shape[:-1][-len(rows) :] != rows:",
        "if False:",
    ),
    Mistake(
        "large whole numbers are rounded",
        "likelihoods/base.py",
        "if rounded := int((found.to(y.dtype) != y).sum()):",
        "if rounded := 0:",
    ),
    Mistake(
        "a sequence with hooks is taken for one that keeps rows",
        "predictive/kept.py",
        'if hooked(model) or "forward" in vars(model):',
        "if not isinstance(model, nn.Module):",
    ),
    Mistake(
        "intervals by moments do not see a change of the model",
        "predictive/analytic.py",
        "first.seed, first.snapshot))",
        "first.seed))",
    ),
)

SELECTION = (
    "tests/ops/test_orders.py::test_matrix_is_symmetric_and_orthogonal[12]",
    "tests/nn/test_contracts.py::TestStacked::test_kl_laws[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_kl_laws[SHGHS-diagonal-low_rank:2]",
    "tests/nn/test_contracts.py::TestStacked::test_a_draw_for_each_example[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_one_draw_is_the_plain_layer[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_sampling_law[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_vectors_are_independent[SHGHS-diagonal-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_examples_differ_and_a_batch_agrees[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestStacked::test_a_pass_leaves_no_trace[SHGHS-optimised-diagonal]",
    "tests/nn/test_contracts.py::TestConvolution::test_a_draw_for_each_example[SHGHS-optimised-diagonal]",
    "tests/nn/test_terms.py::TestTerms::test_one_draw_is_the_plain_layer[square]",
    "tests/nn/test_terms.py::TestTerms::test_one_draw_is_the_plain_layer[grid]",
    "tests/nn/test_terms.py::test_weight_kl_and_law_are_sums_over_terms[linear-True]",
    "tests/nn/test_share_g.py::test_outputs_have_the_joint_covariance_of_the_dense_twin[example-by_function]",
    "tests/nn/test_share_g.py::test_a_tie_by_hand_cannot_be_drawn_twice_unseen",
    "tests/posterior/test_posterior.py::TestGaussian::test_kl_is_that_of_torch",
    "tests/posterior/test_posterior.py::TestPlanarFlow::test_kl_is_the_monte_carlo_estimate[planar:3-4]",
    "tests/posterior/test_posterior.py::TestPlanarFlow::test_kl_is_differentiable[planar:1-4]",
    "tests/posterior/test_flow.py::test_log_determinant_is_that_of_the_jacobian[0]",
    "tests/posterior/test_prior.py::test_a_variance_is_a_variance",
    "tests/structure/test_structure.py::test_dense_is_the_product_of_the_letters[SHGHS-stack-3x7-own]",
    "tests/structure/test_structure.py::test_dense_is_the_product_of_the_letters[SHGPHS-stack-8x2-shared]",
    "tests/likelihoods/test_likelihoods.py::test_log_prob_is_that_of_the_law[scalar]",
    "tests/inference/test_elbo.py::test_parts_are_what_they_are_called",
    "tests/inference/test_elbo.py::test_a_batch_counts_for_all_rows",
    "tests/inference/test_schedules.py::test_the_papers_schedule",
    "tests/inference/test_start.py::test_another_model_is_refused_and_stays_as_it_was[finished-head.g.mean]",
    "tests/io/test_folder.py::test_any_change_is_seen",
    "tests/io/test_folder.py::test_a_file_is_added_to_the_folder_that_it_belongs_to",
    "tests/adapters/test_laws.py::test_zeros_keep_their_signs",
    "tests/likelihoods/test_likelihoods.py::test_features_and_rows_that_do_not_fit_are_not_broadcast",
    "tests/likelihoods/test_likelihoods.py::test_whole_numbers_are_kept_exactly_or_refused",
    "tests/predictive/test_prediction.py::test_a_change_of_any_kind_is_seen[p]",
    "tests/predictive/test_prediction.py::test_a_change_of_any_kind_is_seen[order of another storage]",
    "tests/predictive/test_prediction.py::test_a_change_of_any_kind_is_seen[rows of the array behind x]",
    "tests/predictive/test_honest_models.py::test_inputs_stay_as_they_are_and_pieces_are_fresh[batch-Bayesian-False]",
    "tests/predictive/test_honest_models.py::test_a_fit_leaves_the_data_as_they_are[tensors]",
    "tests/predictive/test_honest_models.py::test_positions_before_rows_are_seen[2]",
    "tests/predictive/test_honest_models.py::test_a_model_that_draws_for_itself_is_announced_and_is_no_certain_function",
    "tests/predictive/test_ensemble.py::test_names_that_look_alike_are_told_apart",
    "tests/predictive/test_kept.py::test_what_is_not_known_is_tried",
    "tests/predictive/test_kept.py::test_intervals_by_moments_see_a_change_since_the_prediction[False]",
    "tests/adapters/test_laws.py::test_forward_is_the_base_with_another_weight[Attention-diagonal-1-1]",
    "tests/adapters/test_laws.py::test_spread_is_that_of_the_weights_at_the_start[1-Linear]",
)


def test_every_mistake_is_found(tmp_path: Path) -> None:
    """One test and not one for each: processes that share the tests would each begin with all mistakes."""
    found = results(tmp_path)
    codes = {name: code for name, (code, _) in found.items()}
    expected = {mistake.name: FAILED if mistake.old else 0 for mistake in MISTAKES}
    assert codes == expected, "\n".join(found[name][1] for name in codes if codes[name] != expected[name])


def results(folder: Path) -> dict[str, tuple[int, str]]:
    """What pytest returned and printed for each mistake, from workers side by side."""
    for number, mistake in enumerate(MISTAKES):
        make_copy(mistake, folder / str(number))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, *(str(folder / str(n)) for n in range(first, len(MISTAKES), WORKERS))],
            cwd=ROOT,
            env=environment,
        )
        for first in range(WORKERS)
    ]
    try:
        assert [worker.wait(timeout=300) for worker in workers] == [0] * WORKERS
    finally:
        for worker in workers:
            worker.kill()
    found = {}
    for number, mistake in enumerate(MISTAKES):
        copy = folder / str(number)
        found[mistake.name] = (int((copy / "code").read_text()), (copy / "output").read_text())
    return found


def make_copy(mistake: Mistake, folder: Path) -> None:
    """The package with the mistake in it, in ``folder``; an error if the text to change is not there exactly once."""
    shutil.copytree(ROOT / "src" / "whvi", folder / "whvi", ignore=shutil.ignore_patterns("csrc"))
    if not mistake.old:
        return
    file = folder / "whvi" / mistake.file
    text = file.read_text()
    if text.count(mistake.old) != 1:
        raise ValueError(f"{mistake.name}: {mistake.old!r} is {text.count(mistake.old)} times in {mistake.file}, not 1")
    file.write_text(text.replace(mistake.old, mistake.new))


def run_in_fork(folder: Path) -> None:
    """Run the selection on the package in ``folder``, and leave there what came of it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    code = -1
    gc.disable()
    try:
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.path.insert(0, str(folder))
        plugins = (
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
        )  # the latter is slow to load
        code = int(pytest.main(["-q", "-x", *plugins, *SELECTION]))
        if not str(sys.modules["whvi"].__file__).startswith(str(folder)):
            print("the tests ran on another copy of the package")
            code = -2
    finally:
        sys.stdout.flush()
        (folder / "code").write_text(str(code))
        os._exit(0)


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401  (loaded once, before the forks; vmap needs it)

    gc.freeze()  # pytest collects garbage at its end, and what is loaded here is none
    for name in sys.argv[1:]:
        run_in_fork(Path(name))
    gc.unfreeze()
