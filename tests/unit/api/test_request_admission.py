"""Requests of one organisation wait for each other, and for no other organisation's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from services.api.http.callers import Caller, caller_of, org_of
from services.api.http.per_path_concurrency_limits import AT_ONCE_MAX, ConcurrencyLimits
from services.api.http.request_admission import admit


class ByHeader:
    """Authenticates whoever a header names."""

    async def authenticate(self, connection: Any) -> Caller:
        return Caller(connection.headers["x-org"], "user-1")


class Requests:
    """Requests to one api for the same thing."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(
            password=None, authenticator=ByHeader(), concurrency_limits=ConcurrencyLimits()
        )

    def of(self, org: str, path: str = "/v1/agents") -> Any:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def body() -> bytes:
            return b""

        return SimpleNamespace(
            app=SimpleNamespace(state=self.state),
            headers=Headers({"x-org": org}),
            method="GET",
            scope={"path": path, "state": {}},
            body=body,
            receive=receive,
        )


class Headers(dict[str, str]):
    def getall(self, name: str, default: list[str]) -> list[str]:
        return default


async def test_one_organisation_does_not_take_the_places_of_another() -> None:
    requests = Requests()
    for _ in range(AT_ONCE_MAX):
        await admit(requests.of("org-1"))
    waiting = asyncio.create_task(admit(requests.of("org-1")))
    other = requests.of("org-2")

    await admit(other)

    assert (org_of(other), caller_of(other).user) == ("org-2", "user-1")
    assert not waiting.done()
    waiting.cancel()


async def test_what_is_open_to_everybody_has_no_caller() -> None:
    request = Requests().of("org-1", "/v1/health")
    await admit(request)
    with pytest.raises(KeyError):
        caller_of(request)
