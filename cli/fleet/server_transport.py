"""A server as the fleet's transport, by the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import letta_client

from cli.api_problems import explanation
from cli.exit_codes import CommandError, ExitCode
from cli.server import Server
from libs.agent_document.desired import Json

REFUSED_FROM, REFUSED_BELOW = 400, 500
# The key is wrong, or may not do this; too much was asked for at once.
NOT_REFUSED = (401, 403, 408, 429)


class Transport(Protocol):
    """A server. Its methods raise CommandError, and Refusal where it refused a request."""

    @property
    def address(self) -> str:
        """The address of the server."""

    def get(self, path: str, **query: Any) -> Json:
        """The document at a path."""

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Json]:
        """Each entry of a list that has cursors."""

    def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        """The answer to a request, with an Idempotency-Key if there is one."""


class Refusal(CommandError):
    """The server refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text, ExitCode.REFUSED)
        self.status = status


class ServerTransport:
    """One server. What is no refusal of a request is raised as CommandError: the server cannot be
    reached, lets nobody in, or fails."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def address(self) -> str:
        return self.server.where.url

    def get(self, path: str, **query: Any) -> Json:
        """The document at a path. Raises Refusal."""
        with _in_words():
            return self.server.get(path, **query)

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Json]:
        with _in_words():
            yield from self.server.pages(path, limit, **query)

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
        with _in_words():
            return call(path, cast_to=object, body=body, options=options)


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except letta_client.APIStatusError as problem:
        status = problem.status_code
        refusal = explanation(problem) or CommandError(str(problem))
        if refusal.code == ExitCode.UNREACHABLE:
            raise refusal from problem
        if REFUSED_FROM <= status < REFUSED_BELOW and status not in NOT_REFUSED:
            raise Refusal(status, str(refusal)) from problem
        raise refusal from problem
    except letta_client.APIConnectionError as problem:
        refusal = explanation(problem) or CommandError(str(problem), ExitCode.UNREACHABLE)
        raise refusal from problem
