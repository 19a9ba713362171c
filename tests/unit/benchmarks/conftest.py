import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.benchmarks.fake_v1 import FakeV1, fake_v1


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """A benchmark makes the bus quieter for its process, which is that of other tests here."""
    bus = logging.getLogger("libs.bus")
    level = bus.level
    yield
    bus.setLevel(level)


@pytest.fixture
async def fake() -> AsyncIterator[FakeV1]:
    async with fake_v1() as fake:
        yield fake
