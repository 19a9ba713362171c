"""Posts to clients. What that needs is imported when the first of them is told something: most
servers never do."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from services.agent.adapters.address_guard import AddressGuard
from services.agent.domain.callbacks import CallbackOutcome


class ClientPoster:
    """Posts to the addresses that a guard lets pass."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard
        self.http: Any = None

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        """Post JSON; what comes of it is never an exception."""
        if self.http is None:
            module = await asyncio.to_thread(import_module, "services.agent.adapters.guarded_http")
            self.http = module.GuardedHttp(self.guard)
        outcome: CallbackOutcome = await self.http.post(url, body)
        return outcome
