"""What the tests of the report share."""

import pytest
import samples

from whvi_paper.blocks import Shown


@pytest.fixture(scope="session")
def shown() -> list[Shown]:
    """The exhibits of ``samples``, made once."""
    return samples.exhibits()
