from collections.abc import AsyncIterator

import pytest

from tests.unit.benchmarks.fake_v1 import FakeV1, fake_v1


@pytest.fixture
async def fake() -> AsyncIterator[FakeV1]:
    async with fake_v1() as fake:
        yield fake
