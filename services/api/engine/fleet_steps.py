"""Carry out what a plan says of one thing: whole, or not at all.

Each request has a name that follows from the plan, so another process may send it again. What was
sent before a request that is refused is taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from libs.agent_document.desired import Json
from libs.agent_document.requests import Ids, Request
from libs.bus.ports import Clock
from services.api.engine.fleet_api import GONE, ApiAway, FleetApi, Refused
from services.api.engine.present_values import is_same, mcp_tools_of, present_values
from services.api.engine.requests_with_ids import (
    UnknownRef,
    body_of,
    mcp_servers_named,
    path_of,
)

log = logging.getLogger(__name__)

# A request that the API cannot answer just now is sent again, after pauses of together ten minutes.
TRIES_MAX = 24
CONFLICT = 409
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.25, 30.0


@dataclass(frozen=True)
class RetryingApi:
    """The API, asked again and again where it cannot answer just now: keeps the contract of
    `FleetApi`, and raises ApiAway in the end."""

    api: FleetApi
    clock: Clock

    async def get(self, path: str, **query: Any) -> Json:
        return await self.persist(partial(self.api.get, path, **query))

    async def pages(self, path: str, **query: Any) -> list[Json]:
        return await self.persist(partial(self.api.pages, path, **query))

    async def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        return await self.persist(partial(self.api.send, method, path, body, key))

    async def persist[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer."""
        for number in range(TRIES_MAX):
            try:
                return await ask()
            except ApiAway:
                if number == TRIES_MAX - 1:
                    raise
            await self.clock.sleep(min(PAUSE_SECONDS * 1.6**number, PAUSE_SECONDS_MAX))
        raise AssertionError("the last try raises")


@dataclass
class FleetSteps:
    """Sends the requests of one unit.

    Args:
        name: what their names begin with.
        ids: of what they may name; those of what they make are added.
        made: the ids of what they have made.
    """

    api: FleetApi
    name: str
    ids: Ids
    made: Ids = field(default_factory=dict)

    async def send_all(self, steps: Sequence[Request]) -> str:
        """Send them all; why they were taken back, if one was refused."""
        for number, step in enumerate(steps):
            try:
                await self.send(step, f"{self.name}.{number}")
            except (Refused, UnknownRef, ApiAway) as refused:
                await self.take_back(steps[:number])
                return str(refused)
        return ""

    async def take_back(self, steps: Sequence[Request]) -> None:
        """Undo these steps, the last one first, as far as it can be."""
        for number, step in reversed([*enumerate(steps)]):
            if step.undo is None:
                continue
            try:
                await self.send(step.undo, f"{self.name}.{number}.undo")
                if step.creates is not None:
                    self.made.pop(step.creates, None)
            except (Refused, UnknownRef, ApiAway) as refused:
                log.warning("%s: step %d is not taken back: %s", self.name, number, refused)

    async def send(self, request: Request, name: str) -> Json:
        """The answer to a request. Raises Refused, UnknownRef and ApiAway."""
        await self.refuse_changed(request)
        for server in mcp_servers_named(request):
            self.ids |= await mcp_tools_of(self.api, server, self.ids)
        path, body = path_of(request, self.ids), body_of(request.body, self.ids)
        key = name if request.creates is not None and request.method == "POST" else None
        try:
            answer = await self.api.send(request.method, path, body, key)
        except Refused as refused:
            if request.absent_is_done and refused.status == GONE:
                return None
            raise
        if request.creates is not None:
            self.ids[request.creates] = self.made[request.creates] = str(answer["id"])
        return answer

    async def refuse_changed(self, request: Request) -> None:
        """Raise Refused for an update whose fields have neither the values that they had when it
        was planned, nor those that it gives: somebody has changed them since."""
        if request.undo is None or not isinstance(request.undo.body, dict):
            return
        planned, given = request.undo.body, body_of(request.body, self.ids)
        changed = [
            name
            for name, now in (await present_values(self.api, request, self.ids)).items()
            if not (is_same(name, planned.get(name), now) or is_same(name, given[name], now))
        ]
        if changed:
            words = f"{', '.join(changed)} changed since this was planned: plan again"
            raise Refused(CONFLICT, words)
