"""A server as the fleet's transport, by the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import letta_client

from cli.api_problems import explanation
from cli.exit_codes import CommandError, ExitCode
from cli.server import Server
from libs.agent_document.desired import Json

REFUSED = range(400, 500)
# The key is wrong, or may not do this; too much was asked for at once.
NOT_REFUSED = (401, 403, 408, 429)


class Refusal(CommandError):
    """The server refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text, ExitCode.REFUSED)
        self.status = status


class Transport:
    """One server. Its methods raise Refusal where it refused a request, and CommandError where it
    cannot be reached, lets nobody in, or fails."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.address = server.where.url

    def get(self, path: str, **query: Any) -> Json:
        """The document at a path."""
        with _in_words():
            return self.server.get(path, **query)

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Json]:
        with _in_words():
            yield from self.server.pages(path, limit, **query)

    def post(self, path: str, body: Json) -> Json:
        """The answer to a request."""
        with _in_words():
            return self.server.letta.post(path, cast_to=object, body=body)


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except (letta_client.APIStatusError, letta_client.APIConnectionError) as problem:
        refusal = explanation(problem) or CommandError(str(problem), ExitCode.UNREACHABLE)
        status = getattr(problem, "status_code", 0)
        is_refusal = status in REFUSED and status not in NOT_REFUSED
        if is_refusal and refusal.code != ExitCode.UNREACHABLE:
            refusal = Refusal(status, str(refusal))
        raise refusal from problem
