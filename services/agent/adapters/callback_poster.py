"""Posts to clients. What that needs is imported when the first of them is told something: most
servers never do."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from libs.egress.address_guard import AddressGuard
from libs.egress.failures import EgressFailed, Forbidden
from services.agent.domain.conversations.callback_attempts import CallbackOutcome

JSON = {"Content-Type": "application/json"}


class CallbackPoster:
    """Posts to the addresses that a guard lets pass."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard
        self.http: Any = None
        self.request: Any = None

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        """Post JSON; what is answered is not read, and what comes of it is never an exception."""
        if self.http is None:
            module = await asyncio.to_thread(import_module, "libs.egress.guarded_http_client")
            self.request = module.OutgoingRequest
            self.http = module.GuardedHttp(self.guard)
        try:
            async with self.http.open(self.request("POST", url, JSON, body)) as answer:
                return CallbackOutcome(status=answer.status)
        except Forbidden as forbidden:
            return CallbackOutcome(error=f"The address is not asked: {forbidden}", forbidden=True)
        except EgressFailed as lost:
            return CallbackOutcome(error=f"No answer: {lost}")
