"""What an estimator takes for so many rows, where a parameter is None."""

MANY_ROWS = 5_000
"""From which on one structured matrix for each weight is too little to learn all that they say."""


def default_steps(rows: int) -> int:
    """For so many rows.

    >>> default_steps(100), default_steps(10_000), default_steps(1_000_000)
    (10040, 14000, 25000)
    """
    return int(min(10_000 + 0.4 * rows, 25_000))


def default_batch_size(rows: int) -> int:
    """Rows of a step, for so many rows.

    >>> default_batch_size(100), default_batch_size(10_000)
    (64, 128)
    """
    return 64 if rows < MANY_ROWS else 128


def default_terms(rows: int) -> int:
    """How many structured matrices a weight is the sum of, for so many rows.

    >>> default_terms(100), default_terms(10_000)
    (1, 4)
    """
    return 1 if rows < MANY_ROWS else 4
