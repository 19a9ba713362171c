"""The api on the runtime of every service: what fails while it starts is what is told."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest

from libs.bus.clock_and_ids import RandomIds, SystemClock
from libs.bus.ports import BusUnavailable
from libs.bus.service_runner import Runtime
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealing_keys import new_key
from services.api.app import wiring


class DeafBus:
    """A bus that cannot be listened to."""

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_: object, **__: object) -> None:
            raise BusUnavailable(name)

        return refuse


async def test_an_api_that_cannot_hear_the_bus_ends_with_that_as_the_reason() -> None:
    service = MagicMock(handle=AsyncMock(), hear=AsyncMock(), follow=AsyncMock())
    runtime = Runtime(service, cast(Any, None), cast(Any, DeafBus()), SystemClock(), RandomIds())
    await wiring({"HEELER_PORT": "1", ENCRYPTION_KEYS: new_key()})(runtime)
    service.handle.assert_awaited_once()
    [begin] = runtime.begin

    with pytest.raises(BusUnavailable):
        await begin()
    await runtime.closing.aclose()
    assert not runtime.ended.is_set()
