"""Dead letters: messages that the services gave up, to be read, replayed or discarded."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response

from libs.contracts.letta.request_size_limits import Name
from libs.contracts.per_service_commands import DISCARD, REPLAY, letter_command
from services.api.adapters.resource_query_builder import Resource, Where
from services.api.adapters.server.dead_letter_queries import DEAD_LETTER_VIEW
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, query_of
from services.api.openapi.operation import delete, get, post
from services.api.v1.read_model_responses import answer_document, answer_page, document_of

REPLAY_SECONDS_MAX = 15.0

# As json, and not as jsonb, a payload stays as it was sent.
DEAD_LETTERS = Resource(
    kind="letter",
    view=DEAD_LETTER_VIEW,
    document=(
        "(select to_json(shown) from (select v.id, v.created_at, v.service, v.kind, v.name,"
        " v.subject, v.message_id, v.payload, v.payload_text, v.context, v.attempts, v.first_at,"
        " v.last_at, v.error_class, v.error_text, v.correlation_id, v.status, v.outcome) shown)"
    ),
)


class DeadLetterPage(Page):
    """A page of dead letters."""

    service: Annotated[Name | None, Where("v.service = {}")] = None
    name: Annotated[Name | None, Where("v.name = {}")] = None
    kind: Annotated[Literal["command", "event", "run", "work"] | None, Where("v.kind = {}")] = None
    status: Annotated[Literal["parked", "replaying", "replayed"] | None, Where("v.status = {}")] = (
        None
    )


@get("/v1/admin/dead-letters", "dead letters", query=DeadLetterPage)
async def list_dead_letters(request: AnyRequest) -> Response[bytes]:
    """List the messages that were given up, the latest first."""
    return await answer_page(request, DEAD_LETTERS, query_of(request, DeadLetterPage))


@get("/v1/admin/dead-letters/{letter_id:str}", "dead letter")
async def retrieve_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Retrieve a message that was given up, with what is known of why."""
    return await answer_document(request, DEAD_LETTERS, letter_id)


@post("/v1/admin/dead-letters/{letter_id:str}/replay", "dead letter")
async def replay_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Try a message that was given up again; done twice it still takes effect once."""
    command = letter_command(await owner(request, letter_id), REPLAY)(letter_id=letter_id)
    await api_of(request).send(request, command, seconds_max=REPLAY_SECONDS_MAX)
    return await answer_document(request, DEAD_LETTERS, letter_id)


@delete("/v1/admin/dead-letters/{letter_id:str}", "nothing")
async def discard_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Forget a message that was given up."""
    command = letter_command(await owner(request, letter_id), DISCARD)(letter_id=letter_id)
    await api_of(request).send(request, command)
    return raw(b"null")


async def owner(request: AnyRequest, letter_id: str) -> str:
    """The service that keeps a letter; raises the 404 that names it."""
    return (await document_of(request, DEAD_LETTERS, letter_id, document="v.service")).decode()
