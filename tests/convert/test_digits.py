"""A trained network, made Bayesian and trained on: as accurate, with a better density and fewer parameters."""

from loading import benchmark

NETWORKS = (1, 2)


def test_a_trained_network_keeps_its_accuracy_and_gains_likelihood() -> None:
    """The benchmark with two networks; its record has more of them."""
    found = [benchmark("convert").compare(seed) for seed in NETWORKS]
    assert all(share < 0.15 for share, _, _ in found)
    assert all(after.accuracy > before.accuracy - 0.01 for _, before, after in found)
    assert sum(after.mnll - before.mnll for _, before, after in found) < 0
