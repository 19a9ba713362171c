"""The wiring of the tools service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire
from services.tools.handlers.tools import ToolHandlers


def wiring(environment: Mapping[str, str]) -> Wire:
    """The tools service reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Say what the tools service answers."""
    await runtime.service.handle(ToolHandlers(runtime.clock).table())
