"""Dead letters: messages that the services gave up, to be read, replayed or discarded."""

from __future__ import annotations

from typing import Literal

from litestar import Response, delete, get, post

from libs.contracts.dead_letters import DISCARD, REPLAY, letter_command
from libs.contracts.letta.limits import Name
from services.api.adapters.letters import LetterFilter, LetterReads
from services.api.http.described import described
from services.api.http.problems import Problem
from services.api.http.reading import AnyRequest, Page, query_of, valid_id
from services.api.http.shared import ORG, api_of, raw, slice_of

REPLAY_SECONDS_MAX = 15.0


class LetterPage(Page):
    """A page of dead letters."""

    service: Name | None = None
    name: Name | None = None
    kind: Literal["command", "event", "run"] | None = None
    status: Literal["parked", "replaying", "replayed"] | None = None


@get("/v1/admin/dead-letters", opt=described("dead letters", query=LetterPage))
async def list_dead_letters(request: AnyRequest) -> Response[bytes]:
    """List the messages that were given up, the latest first."""
    page = query_of(request, LetterPage)
    wanted = LetterFilter(ORG, page.service, page.name, page.kind, page.status)
    return raw(await letters(request).page(wanted, slice_of(page)))


@get("/v1/admin/dead-letters/{letter_id:str}", opt=described("dead letter"))
async def retrieve_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Retrieve a message that was given up, with what is known of why."""
    return raw(await letter(request, letter_id))


@post(
    "/v1/admin/dead-letters/{letter_id:str}/replay",
    status_code=200,
    opt=described("dead letter"),
)
async def replay_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Try a message that was given up again; done twice it still takes effect once."""
    command = letter_command(await owner(request, letter_id), REPLAY)(letter_id=letter_id)
    await api_of(request).send(request, command, seconds_max=REPLAY_SECONDS_MAX)
    return raw(await letter(request, letter_id))


@delete("/v1/admin/dead-letters/{letter_id:str}", status_code=200, opt=described("nothing"))
async def discard_dead_letter(request: AnyRequest, letter_id: str) -> Response[bytes]:
    """Forget a message that was given up."""
    command = letter_command(await owner(request, letter_id), DISCARD)(letter_id=letter_id)
    await api_of(request).send(request, command)
    return raw(b"null")


def letters(request: AnyRequest) -> LetterReads:
    """The dead letters of all services."""
    return LetterReads(api_of(request).reads)


async def letter(request: AnyRequest, letter_id: str) -> bytes:
    """The document of a letter; raises the 404 that names it."""
    document = await letters(request).one(ORG, valid_id("letter", letter_id))
    if document is None:
        raise no_letter(letter_id)
    return document


async def owner(request: AnyRequest, letter_id: str) -> str:
    """The service that keeps a letter; raises the 404 that names it."""
    service = await letters(request).owner(ORG, valid_id("letter", letter_id))
    if service is None:
        raise no_letter(letter_id)
    return service


def no_letter(letter_id: str) -> Problem:
    """The 404 for a letter that is not there."""
    return Problem(404, {"detail": f"Dead letter with id '{letter_id}' not found"})
