"""The wiring of the groups service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    await runtime.service.handle({})
