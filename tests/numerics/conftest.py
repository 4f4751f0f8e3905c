from collections.abc import Iterator

import pytest
from hypothesis import settings

from pyptx.numerics import quiet

settings.register_profile("numerics", deadline=None, derandomize=True)


@pytest.fixture(autouse=True, scope="session")
def _quiet_numpy() -> Iterator[None]:
    with quiet():
        yield
