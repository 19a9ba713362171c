"""What every handler has at hand, and what every handler does in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from litestar import Response
from litestar.types import Receive, Scope, Send

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.bus_messages import DEFAULT_ORG, KEYED, Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import errors
from libs.encryption.sealer import Sealer
from services.api.adapters.block_history_queries import BlockHistoryQueries
from services.api.adapters.client_retry_matching import ClientRetries
from services.api.adapters.context_queries import ContextQueries
from services.api.adapters.conversation_run_queries import ConversationRunQueries
from services.api.adapters.folder_queries import FolderQueries
from services.api.adapters.message_queries import MessageQueries
from services.api.adapters.message_search import MessageSearchQueries
from services.api.adapters.resource_query_builder import (
    Filter,
    Resource,
    ResourceQueries,
    Slice,
    UnknownCursor,
    filter_of,
)
from services.api.adapters.run_follower import RunInbox
from services.api.adapters.run_follower_queries import RunQueries
from services.api.adapters.tag_queries import TagQueries
from services.api.adapters.uploads import Uploads
from services.api.http.error_responses import Problem, refused
from services.api.http.request_parsing import AnyRequest, Page, context_of, valid_id
from services.api.http.secret_values import with_opened_secrets

COMMAND_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Api:
    """The adapters of the api."""

    reads: ResourceQueries
    messages: MessageQueries
    context: ContextQueries
    runs: RunQueries
    conversation_runs: ConversationRunQueries
    bus: Bus
    clock: Clock
    ids: Ids
    inbox: RunInbox
    first_tries: ClientRetries
    search: MessageSearchQueries
    tags: TagQueries
    sealer: Sealer
    block_history: BlockHistoryQueries
    folders: FolderQueries
    uploads: Uploads

    def new_id(self, request: AnyRequest, prefix: str, *scope: str) -> str:
        """A fresh id, or with an Idempotency-Key the same one each time."""
        key = request.headers.get("idempotency-key")
        return derived_id(prefix, ORG, *scope, key) if key else self.ids.new(prefix)

    async def send(
        self,
        request: AnyRequest,
        command: Command,
        *,
        message_id: str = "",
        keyed: bool = True,
        seconds_max: float = COMMAND_SECONDS_MAX,
    ) -> Accepted:
        """Send a command; raises the answer that its refusal is, and with an Idempotency-Key that
        came before with another request a 409. A command that tells its requests apart itself is
        not `keyed`."""
        name = message_id or self.new_id(request, "cmd", request.method, request.url.path)
        context = context_of(
            request, name, await fingerprint(request, self.sealer) if keyed else ""
        )
        reply = await self.bus.request(command, context, seconds_max=seconds_max)
        if isinstance(reply, Rejected):
            raise refused(reply)
        return reply


ORG = DEFAULT_ORG


async def fingerprint(request: AnyRequest, sealer: Sealer) -> str:
    """What tells a request from others with the same Idempotency-Key; empty without a key. A body
    may hold secrets, so nobody but who has the keys can find out what was in it."""
    if not request.headers.get("idempotency-key"):
        return ""
    first = f"{request.method} {request.url.path.rstrip('/')}\n".encode()
    return KEYED + sealer.keyed_digest(first, await request.body())


def api_of(request: AnyRequest) -> Api:
    """The adapters, from the application."""
    api: Api = request.app.state.api
    return api


class RawJson(Response[bytes]):
    """An answer that is whole and JSON already, and is sent as it is, with the `headers` that it is
    given afterwards."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status_code = 200
        self.headers = {}

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The answer as an application; what Litestar would add to it, it does not need."""
        return self.sent

    async def sent(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        size = str(len(self.content)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", size)]
        headers += [
            (name.lower().encode(), str(self.headers[name]).encode()) for name in self.headers
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.content, "more_body": False})


def raw(body: bytes) -> Response[bytes]:
    """JSON as it came from the database."""
    return RawJson(body)


async def listed(
    request: AnyRequest,
    resource: Resource,
    page: Page,
    found: Filter | None = None,
    *,
    key: str = "created_at",
    document: str = "",
    bytes_max: int | None = None,
) -> Response[bytes]:
    """A page of a resource: of the rows that the query parameters ask for, or of those `found`."""
    found = filter_of(page, ORG) if found is None else found
    api = api_of(request)
    documents = await api.reads.page(
        resource, found, slice_of(page), key=key, document=document, bytes_max=bytes_max
    )
    return raw(with_opened_secrets(api.sealer, documents))


async def counted(request: AnyRequest, resource: Resource, found: Filter) -> Response[bytes]:
    """How many rows there are of those `found`."""
    count = await api_of(request).reads.count(resource, found)
    return raw(str(count).encode())


async def retrieved(
    request: AnyRequest, resource: Resource, resource_id: str, *, document: str = ""
) -> Response[bytes]:
    """One row as JSON, or the 404 that says what is not there."""
    return raw(await document_of(request, resource, resource_id, document=document))


async def document_of(
    request: AnyRequest, resource: Resource, resource_id: str, *, document: str = ""
) -> bytes:
    """The document of one row, or another expression on it; raises the 404 that names it."""
    api = api_of(request)
    known = valid_id(resource.kind, resource_id)
    body = await api.reads.one(resource, ORG, known, document)
    if body is None:
        raise missing(resource.kind, resource_id)
    return with_opened_secrets(api.sealer, body)


def missing(kind: str, name: str) -> Problem:
    """The 404 that says what is not there."""
    return Problem(404, errors.not_found(kind, name))


def slice_of(page: Page) -> Slice:
    """The part of a list that a client asked for."""
    return Slice(page.before, page.after, page.limit, page.order)


def unknown_cursor(problem: UnknownCursor) -> Problem:
    """The 400 for a cursor that names nothing."""
    detail = (
        f"The cursor `{problem.name}` names nothing in this list: {problem.value}. "
        "Use the id of an item of the list, or leave it out to start from the beginning."
    )
    return Problem(400, {"detail": detail})
