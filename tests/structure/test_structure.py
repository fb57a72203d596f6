"""Structured matrices: the shipped contract, the product of the letters written out, words and plans."""

import pytest
import torch
from torch import Tensor

from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.ops.reference import hadamard
from whvi.structure import StructuredMatrix, make_plan, parse, random_permutation
from whvi.structure.elements import inverse
from whvi.testing import MatrixCase, StructureContract, assert_close, cover_pairs

WORDS = ("GH", "SHGH", "SHGHS", "SHGHSH", "G", "HG", "HGH", "SGS", "HSHGHSHS")
PERMUTED = ("SHGPHS", "SPHGHS", "SHGHPS", "PG", "HPGPH", "PSHPGHSP")
SHAPES = (
    ("stack", 3, 7),
    ("stack", 8, 8),
    ("stack", 1, 3),
    ("stack", 8, 2),
    ("embed", 3, 5),
    ("embed", 5, 3),
    ("reshape", 7, 1),
    ("reshape", 16, 3),
    ("reshape", 1, 2),
    ("grid 4", 7, 9),
    ("grid 12", 5, 13),
    ("grid 1", 2, 3),
    ("grid 2, 2 terms", 4, 2),
    ("stack, 3 terms", 3, 7),
)


def make_case(word: str, layout: str, inputs: int, outputs: int, shared: bool) -> MatrixCase:
    """``layout`` may go on with the side of a block, and with a number of terms."""
    name, *rest = layout.replace(",", "").split()
    numbers = [int(part) for part in rest if part.isdigit()]
    block = numbers.pop(0) if name == "grid" else None
    structure, plan = parse(word), make_plan(name, inputs, outputs, *numbers, block=block)
    torch.manual_seed(0)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    scales = [leaf(*plan.block_shape) for _ in range(structure.scales)]
    g = leaf(*(plan.shared_shape if shared else plan.block_shape))
    fixed = [random_permutation(plan.block_shape) for _ in range(structure.permutations)]
    return MatrixCase(StructuredMatrix(structure, plan, scales, fixed, shared=shared), g, leaf(4, inputs))


CASES = cover_pairs(
    (*WORDS, *PERMUTED), SHAPES, (True, False), first=[("SHGHS", SHAPES[0], False), ("SHGPHS", SHAPES[3], True)]
)
NAMES = [f"{w}-{s[0]}-{s[1]}x{s[2]}-{'shared' if shared else 'own'}" for w, s, shared in CASES]


@pytest.fixture(params=CASES, ids=NAMES)
def matrix_case(request: pytest.FixtureRequest) -> MatrixCase:
    word, shape, shared = request.param
    return make_case(word, *shape, shared)


def written_out(case: MatrixCase) -> Tensor:
    """W from dense factors and the definition of the layouts, with nothing of the library but the order of H."""
    return sum((one_term(case, t) for t in range(case.matrix.plan.terms)), torch.zeros((), dtype=torch.float64))


def one_term(case: MatrixCase, t: int) -> Tensor:
    matrix, plan = case.matrix, case.matrix.plan
    transform = hadamard(plan.size) * plan.size**-0.5

    def of_block(vectors: Tensor, k: int) -> Tensor:
        vectors = vectors[t] if plan.terms > 1 else vectors
        return vectors if vectors.ndim == 1 else vectors[k]

    blocks = []
    for k in range(plan.blocks):
        scales = iter(of_block(s, k) for s in matrix.scales)
        fixed = iter(torch.eye(plan.size).double()[of_block(p, k)] for p in matrix.permutations)
        g = of_block(case.g, k)
        block = torch.eye(plan.size, dtype=torch.float64)
        for letter in matrix.structure.word:
            if letter == "P":
                factor = next(fixed)
            else:
                factor = transform if letter == "H" else torch.diag(g if letter == "G" else next(scales))
            block = block @ factor
        blocks.append(block.flatten()[: plan.in_features] if plan.layout == "reshape" else block)
    if plan.layout == "reshape":
        return torch.stack(blocks)
    columns = [torch.cat(blocks[c * plan.rows : (c + 1) * plan.rows]) for c in range(plan.columns)]
    return torch.cat(columns, 1)[: plan.out_features, : plan.in_features]


class TestStructuredMatrix(StructureContract):
    """All laws for every two of word, shape and whether g is shared."""


def test_dense_is_the_product_of_the_letters(matrix_case: MatrixCase) -> None:
    assert_close(matrix_case.matrix.dense(matrix_case.g), written_out(matrix_case), 1e-12)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("word", ["SHGHS", "SHGH"])
def test_gain_is_the_mean_square_of_the_entries(word: str, shared: bool) -> None:
    """With (H g)_m = 1 and zero elsewhere, the entries i xor j = m of W have that mean square, the others are zero."""
    case = make_case(word, "stack", 8, 24, shared)
    size = case.matrix.plan.size
    gain = case.matrix.gain()
    index = torch.arange(size)
    distance = index[:, None] ^ index
    for m in range(size):
        g = (hadamard(size)[m] * size**-0.5).expand(case.g.shape)  # H g is unit vector m
        square = case.matrix.blocks(g).square()
        assert_close(square[:, distance != m] + 1.0, torch.ones_like(square[:, distance != m]), 1e-12)
        mean = square[:, distance == m].mean(-1)
        assert_close(gain[..., m], mean.mean() if shared else mean, 1e-12)


@pytest.mark.parametrize("word", ["SHGHSH", "GH", "HSHGHS", "SPHGHS", "SHGPHS"])
def test_gain_refuses_other_structures(word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        make_case(word, "embed", 4, 4, True).matrix.gain()


@pytest.mark.parametrize("word", ["", "H", "SHHG", "SSG", "SHGPPHS", "GG", "shghs", "SHGHX", "SHGHS "])
def test_bad_words_are_quoted(word: str) -> None:
    with pytest.raises(ArgumentError, match=f"'{word}'"):
        parse(word)


def test_a_word_must_be_a_string() -> None:
    with pytest.raises(InputTypeError, match="structure"):
        parse(b"SHGHS")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layout", "inputs", "outputs", "size", "blocks"),
    [
        ("stack", 1, 128, 1, 128),  # the first layer of the paper's toy network
        ("stack", 128, 128, 128, 1),
        ("stack", 5, 17, 8, 3),
        ("stack", 100, 1, 128, 1),
        ("embed", 5, 17, 32, 1),
        ("reshape", 4096, 1, 64, 1),
        ("reshape", 4097, 2, 128, 2),
        ("reshape", 5, 1, 4, 1),
        ("reshape", 1, 1, 1, 1),
        ("reshape", 2, 1, 2, 1),
        ("reshape", 4, 1, 2, 1),
    ],
)
def test_plans(layout: str, inputs: int, outputs: int, size: int, blocks: int) -> None:
    plan = make_plan(layout, inputs, outputs)
    assert (plan.size, plan.blocks) == (size, blocks)


def test_bad_plans_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match=r"in_features.*-3"):
        make_plan("stack", -3, 2)
    with pytest.raises(ArgumentError, match=r"out_features.*0"):
        make_plan("stack", 3, 0)
    with pytest.raises(InputTypeError, match="in_features"):
        make_plan("stack", 3.0, 2)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'stack', 'embed', 'reshape', 'grid', got 'pile'"):
        make_plan("pile", 3, 2)


def test_scales_must_be_as_many_as_the_word_has() -> None:
    with pytest.raises(ArgumentError, match="2 scales, got 1"):
        StructuredMatrix(parse("SHGHS"), make_plan("stack", 4, 4), [torch.ones(4)])


def test_permutations_must_be_as_many_as_the_word_has() -> None:
    scales = [torch.ones(4)] * 2
    with pytest.raises(ArgumentError, match="'SHGPHS' has 1 permutations, got 0"):
        StructuredMatrix(parse("SHGPHS"), make_plan("stack", 4, 4), scales)
    with pytest.raises(ArgumentError, match="'SHGHS' has 0 permutations, got 1"):
        StructuredMatrix(parse("SHGHS"), make_plan("stack", 4, 4), scales, [torch.arange(4)])


def test_a_permutation_is_uniform_and_its_inverse_takes_it_back() -> None:
    drawn = random_permutation((6000, 3), generator=torch.Generator().manual_seed(0))
    assert (drawn.sort(-1).values == torch.arange(3)).all()
    assert (drawn.gather(-1, inverse(drawn)) == torch.arange(3)).all()
    counts = (drawn * torch.tensor([9, 3, 1])).sum(-1).unique(return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 1000).abs() < 5 * (6000 * 5 / 36) ** 0.5).all()
