"""Admission of requests: the sender may come in and is known, the request has come whole, and it is
its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from services.api.http.authentication import OPEN_PATHS, check
from services.api.http.callers import CALLER, Authenticator, org_of
from services.api.http.error_responses import Problem
from services.api.http.per_path_concurrency_limits import HUNG_UP, TURN, ConcurrencyLimits
from services.api.http.request_parsing import AnyRequest
from services.api.http.streamed_request_bodies import is_streamed

MOMENT = "at"
METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD"})


async def admit(request: AnyRequest) -> None:
    """Let a request in when its caller is known, it has come whole and it is its turn. Raises the
    Problem that says why not. Runs before each handler, and not as a guard: for those Litestar
    copies the whole handler."""
    if CALLER not in request.scope["state"]:  # else the api asks itself, for a caller it knows
        check(request)
        if request.scope["path"].rstrip("/") in OPEN_PATHS:
            return
        authenticator: Authenticator = request.app.state.authenticator
        request.scope["state"][CALLER] = await authenticator.authenticate(request)
    refuse_moment(request)
    await wait_for_turn(request)


def refuse_moment(request: AnyRequest) -> None:
    """Raise the 422 of an `at` that changes nothing: who asks for the past is not told of the
    present."""
    if b"at=" not in request.scope.get("query_string", b"") or MOMENT not in request.query_params:
        return
    operation = request.route_handler.opt.get("description")
    if operation is not None and MOMENT not in getattr(operation.query, "model_fields", ()):
        detail = (
            f"`{MOMENT}`: {request.method} {request.scope['path'][:200]} answers of the present"
            " alone: leave it out. docs/history.md lists what can be asked as it was"
        )
        raise Problem(422, {"detail": detail})


async def wait_for_turn(request: AnyRequest) -> None:
    """Wait for earlier requests of the same organisation that ask the same of the same thing."""
    if is_streamed(request.method, request.scope["path"]):
        return  # those have a bound of their own, and come whole only to who reads them
    size = 0 if request.method in METHODS_WITHOUT_BODY else len(await request.body())
    limits: ConcurrencyLimits = request.app.state.concurrency_limits
    key = f"{org_of(request)} {request.method} {request.scope['path']}"
    request.scope["state"][TURN] = await limits.turn(key, size, lambda: hung_up(request))


async def hung_up(request: AnyRequest) -> None:
    """Return when the client is gone."""
    await request.body()
    await request.receive()


async def unless_hung_up[Result](request: AnyRequest, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of some work; cancel it and raise the 499 once the client is gone."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(hung_up(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Problem(HUNG_UP, {"detail": "The client hung up"})
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
