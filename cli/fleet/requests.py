"""Requests as data, and how they are sent: each so that a second time changes nothing.

A request may name things that earlier requests make (`Ref`). A creation has an Idempotency-Key that
follows from what it says, so that it happens once although its answer is lost. What was created
with a key and is deleted by now is created with the next key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.desired import Json, digest

KEYS_MAX = 20  # how often the same thing may be created, deleted and created again
NOT_FOUND, CONFLICT = 404, 409
NAMING = ("name", "label")  # what was created with a key and is called otherwise by now is another


@dataclass(frozen=True)
class Ref:
    """The id of a thing that may not be there yet: ("tool", "weather")."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request.

    Args:
        path: its segments; a `Ref` stands for an id.
        creates: what the answer's `id` is the id of; such a request has an Idempotency-Key.
        absent_is_done: whether a 404 means that there is nothing left to do.
    """

    method: str
    path: tuple[str | Ref, ...]
    body: Json = None
    creates: Ref | None = None
    absent_is_done: bool = False


class Refusal(CommandError):
    """The server refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text, ExitCode.REFUSED)
        self.status = status


class Transport(Protocol):
    """A server. Its methods raise Refusal; what they raise else is that there is no server."""

    def get(self, path: str, **query: Any) -> Json:
        """The document at a path."""

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Json]:
        """Each entry of a list that has cursors."""

    def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        """The answer to a request, with an Idempotency-Key if there is one."""


class Sender:
    """Sends requests, and knows the ids of what they name."""

    def __init__(self, transport: Transport, ids: dict[Ref, str], scope: str) -> None:
        self.transport = transport
        self.ids = ids
        self.scope = scope

    def send(self, request: Request) -> Json:
        """The answer to a request. Raises Refusal."""
        path = "/".join(self._segment(segment) for segment in request.path)
        body = self._resolved(request.body)
        if request.creates is not None:
            answer = self._create(request.creates, request.method, path, body)
            self.ids[request.creates] = answer["id"]
            return answer
        try:
            return self.transport.send(request.method, path, body, None)
        except Refusal as refusal:
            if request.absent_is_done and refusal.status == NOT_FOUND:
                return None
            raise

    def _create(self, ref: Ref, method: str, path: str, body: Json) -> Json:
        """What is created, or was by an earlier try whose answer was lost. Raises Refusal."""
        content = digest([self.scope, ref.kind, ref.name, method, path, body])
        for number in range(KEYS_MAX):
            try:
                answer = self.transport.send(method, path, body, f"fleet-{content}-{number}")
            except Refusal as refusal:
                if refusal.status not in (NOT_FOUND, CONFLICT) or number == KEYS_MAX - 1:
                    raise
                continue
            if all(answer.get(field, body.get(field)) == body.get(field) for field in NAMING):
                return answer
        raise Refusal(CONFLICT, f"All {KEYS_MAX} keys for {ref.kind} '{ref.name}' are used up")

    def _segment(self, segment: str | Ref) -> str:
        if isinstance(segment, Ref):
            return self.id_of(segment)
        return segment if "/" in segment else quote(segment, safe="")

    def _resolved(self, value: Json) -> Json:
        if isinstance(value, Ref):
            return self.id_of(value)
        if isinstance(value, dict):
            return {name: self._resolved(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [
                resolved
                for inner in value
                for resolved in (
                    self._ids_of_mcp_tools(inner.name)
                    if isinstance(inner, Ref) and inner.kind == "mcp_tools"
                    else [self._resolved(inner)]
                )
            ]
        return value

    def id_of(self, ref: Ref) -> str:
        """The id of what there is by now. Raises Refusal."""
        if ref.kind == "mcp_tool" and ref not in self.ids:
            self._learn_mcp_tools(ref.name.partition("/")[0])
        if ref not in self.ids:
            raise Refusal(NOT_FOUND, f"There is no {ref.kind.replace('_', ' ')} '{ref.name}'")
        return self.ids[ref]

    def _ids_of_mcp_tools(self, server: str) -> list[str]:
        """All tools that an MCP server has by now."""
        self._learn_mcp_tools(server)
        prefix = f"{server}/"
        return [
            tool_id
            for ref, tool_id in self.ids.items()
            if ref.kind == "mcp_tool" and ref.name.startswith(prefix)
        ]

    def _learn_mcp_tools(self, server: str) -> None:
        server_id = self.id_of(Ref("mcp_server", server))
        for tool in self.transport.get(f"/v1/mcp-servers/{server_id}/tools"):
            self.ids[Ref("mcp_tool", f"{server}/{tool['name']}")] = tool["id"]
