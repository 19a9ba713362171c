"""The API as services in its process use it, for an organisation: with the same handlers and limits
as any client."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any
from urllib.parse import quote

from litestar.types import ASGIApp

from libs.agent_document.desired import Json
from services.api.engine.fleet_api import ApiAway, Refused
from services.api.http.callers import CALLER, Caller
from services.api.http.internal_requests import InternalRequests, RequestRefused

PAGE_ITEMS = 200
# Where and why a body does not have its form, in the text of a 422.
INVALID = re.compile(
    r"""'loc': (\([^)]{0,2000}\)), 'msg': ('(?:[^'\\]|\\.){0,2000}'|"(?:[^"\\]|\\.){0,2000}")"""
)
# What passes by itself; another status from 400 on is an answer for good.
TRANSIENT = frozenset({408, 429, 499, 500, 502, 503, 504})


class OwnApi:
    """Keeps the contract of `FleetApi`."""

    def __init__(self, app: ASGIApp, caller: Caller) -> None:
        self.requests = InternalRequests(
            app,
            {
                "asgi": {"version": "3.0", "spec_version": "2.3"},
                "scheme": "http",
                "client": None,
                "server": None,
                "headers": [(b"host", b"localhost")],
                "state": {CALLER: caller},
            },
        )

    async def get(self, path: str, **query: Any) -> Json:
        """The document at a path. Raises Refused and ApiAway."""
        return await self.ask("GET", path, query=query)

    async def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        """The answer to a request, with an Idempotency-Key if there is one. Raises Refused and
        ApiAway."""
        return await self.ask(method, path, body=body, key=key or "")

    async def pages(self, path: str, **query: Any) -> list[Json]:
        """All entries of a list that has cursors. Raises Refused and ApiAway."""
        found: list[Json] = []
        after: dict[str, Any] = {}
        while page := await self.get(path, limit=PAGE_ITEMS, order="asc", **after, **query):
            items = page if isinstance(page, list) else next(iter(page.values()))
            found += items
            if not items:
                break
            after = {"after": items[-1]["id"]}
        return found

    async def ask(self, method: str, path: str, **how: Any) -> Json:
        """The JSON of an answer. Raises Refused and ApiAway."""
        try:
            return await self.requests.ask(method, quote(path, safe="/%"), **how)
        except RequestRefused as refused:
            if refused.status in TRANSIENT:
                raise ApiAway(str(refused)) from None
            raise Refused(refused.status, without_inputs(str(refused))) from None


def without_inputs(detail: str) -> str:
    """Why a body is refused, without what was sent: that may be a secret, and reasons are kept."""
    if not detail.startswith("[{'type': "):
        return detail
    errors = [[literal_eval(part) for part in found] for found in INVALID.findall(detail)]
    problems = [f"`{'.'.join(map(str, place[1:] or place))}`: {why}" for place, why in errors]
    return "; ".join(problems) or "The body does not have the form that this request wants"
