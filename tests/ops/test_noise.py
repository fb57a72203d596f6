"""The counter-based normals: the same bits on every path."""

import pytest
import torch
from torch.func import vmap

from whvi.ops import draw_seed, native, normal, reference, seeded, seeds_from

INSTRUCTION_SETS = [name for name in ("avx512", "avx2", "generic") if native.use_instruction_set(name)]
if INSTRUCTION_SETS:
    native.use_instruction_set(INSTRUCTION_SETS[0])


@pytest.mark.parametrize(
    ("seed", "offset", "count"),
    [(0, 0, 1000), (7, 13, 500), (-5, 2**40 + 3, 300), (2**62 + 12345, 64, 64), (1, 2**36 * 16 - 40, 200), (3, 1, 0)],
)
def test_bits_of_the_reference(seed: int, offset: int, count: int) -> None:
    assert torch.equal(normal(seed, offset, (count,)), reference.normal(seed, offset, count))


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_instruction_sets_agree(name: str) -> None:
    expected = normal(5, 77, (100_003,))
    try:
        assert native.use_instruction_set(name)
        assert torch.equal(normal(5, 77, (100_003,)), expected)
    finally:
        native.use_instruction_set(INSTRUCTION_SETS[0])


def test_threads_and_cuts_do_not_matter() -> None:
    expected = normal(9, 0, (300, 100))
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert torch.equal(normal(9, 0, (300, 100)), expected)
    finally:
        torch.set_num_threads(threads)
    pieces = [normal(9, 100 * row, (1, 100)) for row in range(300)]
    assert torch.equal(torch.cat(pieces), expected)


def test_known_answers_of_philox() -> None:
    """Ten rounds give the published Random123 vectors; the round function and keys are the same with seven."""
    zero = reference._philox(torch.zeros(1, dtype=torch.int64), 0, rounds=10)
    assert [int(word) for word in zero] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_torch_generator_governs_seeds() -> None:
    torch.manual_seed(4)
    first = [int(draw_seed()) for _ in range(3)]
    torch.manual_seed(4)
    assert [int(draw_seed()) for _ in range(3)] == first
    assert len(set(first)) == 3
    generator = torch.Generator().manual_seed(1)
    assert int(draw_seed(generator)) == int(draw_seed(torch.Generator().manual_seed(1)))


def test_a_generator_draws_for_any_device() -> None:
    """It stays on its own, and the seed goes to where it is wanted."""
    assert draw_seed(torch.Generator(), "meta").device.type == "meta"
    assert draw_seed(torch.Generator().manual_seed(3), "cpu") == draw_seed(torch.Generator().manual_seed(3))


def test_each_element_of_a_vmap_has_the_noise_of_its_seed() -> None:
    seeds = torch.arange(6).reshape(2, 3)
    expected = torch.stack([normal(int(seed), 5, (4,)) for seed in seeds.flatten()]).reshape(2, 3, 4)
    assert torch.equal(vmap(vmap(lambda seed: normal(seed, 5, (4,))))(seeds), expected)
    inner = vmap(lambda seed: vmap(lambda x: normal(seed, 5, (4,)) + x)(torch.zeros(5)))(seeds[0])
    assert torch.equal(inner, expected[0, :, None].expand(3, 5, 4))
    shared = vmap(lambda x: normal(2, 5, (4,)) + x)(torch.zeros(3))
    assert torch.equal(shared, expected[0, 2].expand(3, 4))


def test_seeds_of_a_block_are_given_out_in_order() -> None:
    given = torch.tensor([11, 7])
    with seeded(given):
        assert [int(draw_seed()), int(draw_seed())] == [11, 7]
        with pytest.raises(IndexError, match="more seeds"):
            draw_seed()
        with seeded(given):
            assert int(draw_seed()) == 11
        assert int(draw_seed(torch.Generator().manual_seed(3))) == int(seeds_from(3, (1,)))
    torch.manual_seed(3)
    assert int(draw_seed()) == int(seeds_from(3, (1,)))
