"""A server as the fleet's transport, by the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import letta_client

from cli.api_problems import explanation
from cli.fleet.desired import Json
from cli.fleet.requests import Refusal
from cli.server import Server

REFUSED_FROM, REFUSED_BELOW = 400, 500
NOT_LET_IN = (401, 403)


class ServerTransport:
    """One server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, **query: Any) -> Json:
        """The document at a path. Raises Refusal."""
        try:
            return self.server.get(path, **query)
        except letta_client.APIStatusError as problem:
            raise _refusal(problem) from problem

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Json]:
        """Each entry of a list."""
        return self.server.pages(path, limit, **query)

    def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        """The answer to a request. Raises Refusal."""
        options = cast(Any, {"headers": {"Idempotency-Key": key}} if key else {})
        letta = self.server.letta
        calls = {
            "POST": letta.post,
            "PUT": letta.put,
            "PATCH": letta.patch,
            "DELETE": letta.delete,
        }
        call = cast(Any, calls[method])
        try:
            return call(path, cast_to=object, body=body, options=options)
        except letta_client.APIStatusError as problem:
            raise _refusal(problem) from problem


def _refusal(problem: letta_client.APIStatusError) -> Exception:
    """What is a refusal of this request; a server that fails, or lets nobody in, is raised."""
    status = problem.status_code
    if status in NOT_LET_IN or not REFUSED_FROM <= status < REFUSED_BELOW:
        return problem
    return Refusal(status, str(explanation(problem) or problem))
