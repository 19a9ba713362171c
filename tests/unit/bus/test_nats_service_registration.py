"""A service makes itself known to NATS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from nats.aio.client import Client
from nats.errors import FlushTimeoutError

from libs.bus.nats_service_registration import register


async def test_a_slow_nats_is_no_reason_for_a_service_to_end() -> None:
    subjects: list[str] = []

    async def subscribe(subject: str, **_: Any) -> None:
        subjects.append(subject)

    async def flush() -> None:
        raise FlushTimeoutError

    nuid = SimpleNamespace(next=lambda: b"id")
    client = SimpleNamespace(_nuid=nuid, subscribe=subscribe, flush=flush)
    await register("agent", cast(Client, client))
    assert {"$SRV.PING", "$SRV.PING.agent", "agent.metrics"} <= {*subjects}
