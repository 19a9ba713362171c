"""The passages of archives: of one archive, of an agent, and found in any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Literal, cast

from litestar import Response
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.archive_requests import CreateArchivalMemory
from libs.contracts.letta.request_size_limits import Name, Names, SearchText
from libs.contracts.memory.archives import (
    EMBEDDING_SECONDS_MAX,
    PASSAGES_FOUND_MAX,
    DeletePassages,
    FoundPassage,
    FoundPassages,
    InsertPassages,
    NewPassage,
    SearchPassages,
)
from libs.contracts.time_range_parsing import FORMS, first_moment, in_zone, last_moment, zone_named
from services.api.adapters.resource_query_builder import (
    Filter,
    Resource,
    Slice,
    contains,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.read_model_responses import answer_page, document_of

PASSAGES = Resource(
    kind="passage",
    view="memory.archive_passage_view",
    document="v.document",
    created_view="memory.created_passage_view",
)
OF_AGENT = (
    "v.archive_id = any(array(select archive_id from memory.archive_agent_view"
    " where agent_id = %(agent)s and org = %(org)s))"
)
TIME_ZONE = "v.timezone"
# A list ends where it would be longer: `after` its last passage it goes on.
LIST_BYTES_MAX = 8 << 20
INSERT_SECONDS_MAX = 60.0
FOUND_DEFAULT = 5
BYTES_PER_GB = 1 << 30

AGENT = "/v1/agents/{agent_id:str}/archival-memory"
ARCHIVE = "/v1/archives/{archive_id:str}/passages"


class AgentPassagePage(Page, AsOf):
    """A page of an agent's passages, the oldest first."""

    order: Literal["asc", "desc"] = "asc"
    ascending: bool | None = None
    search: Annotated[SearchText | None, contains("v.text")] = None


class ArchivalSearch(Query):
    """Which passages of an agent."""

    query: SearchText
    tags: Names | None = None
    tag_match_mode: Literal["any", "all"] = "any"
    top_k: Annotated[int | None, Field(ge=1, le=PASSAGES_FOUND_MAX)] = None
    start_datetime: Name | None = None
    end_datetime: Name | None = None


@post(AGENT, "passages", body=CreateArchivalMemory)
async def create_agent_passage(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Let an agent remember a text: in its own archive, which is made if it has none, or in the one
    that is attached to it."""
    valid_id("agent", agent_id)
    body = await body_of(request, bodies.CreateArchivalMemory)
    wanted = [new_passage(request, body)]
    return raw(await insert_passages(request, InsertPassages(passages=wanted, agent_id=agent_id)))


@get(AGENT, "passages", query=AgentPassagePage)
async def list_agent_passages(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List what an agent remembers, the oldest first."""
    page = query_of(request, AgentPassagePage)
    if page.ascending is not None:
        page = page.model_copy(update={"order": "asc" if page.ascending else "desc"})
    found = filter_of(page, org_of(request)).by_key(OF_AGENT, agent=agent_id)
    async with seen_at(request, agent_id, page.at):
        await document_of(request, AGENTS, agent_id, document=TIME_ZONE)
        return await answer_page(request, PASSAGES, page, found, bytes_max=LIST_BYTES_MAX)


@get(f"{AGENT}/search", "found passages", query=ArchivalSearch)
async def search_agent_passages(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Search what an agent remembers by meaning and words, the best first."""
    asked = query_of(request, ArchivalSearch)
    command = SearchPassages(
        asker=api_of(request).ids.new("search"),
        query=asked.query,
        agent_id=valid_id("agent", agent_id),
        tags=asked.tags or [],
        tag_match=asked.tag_match_mode,
        limit=asked.top_k or FOUND_DEFAULT,
    )
    if asked.query.strip() and not (asked.start_datetime or asked.end_datetime):
        # Of an agent that is not there each of them says so.
        zone, found = await together(time_zone(request, agent_id), search(request, command))
    else:
        zone = await time_zone(request, agent_id)
        bounds = {
            "after": bound("start_datetime", asked.start_datetime, zone),
            "before": bound("end_datetime", asked.end_datetime, zone),
        }
        command = command.model_copy(update=bounds)
        found = await search(request, command) if asked.query.strip() else []
    results: list[Json] = [
        {
            "id": passage.id,
            "timestamp": moment(passage.fields["created_at"], zone),
            "content": passage.fields["text"],
            "tags": passage.fields["tags"] or [],
        }
        for passage in found
    ]
    return raw(to_json({"results": results, "count": len(results)}))


@delete(f"{AGENT}/{{memory_id:str}}", "message")
async def delete_agent_passage(
    request: AnyRequest, agent_id: str, memory_id: str
) -> dict[str, str]:
    """Let an agent forget a passage."""
    command = DeletePassages(
        passage_ids=[valid_id("passage", memory_id)], agent_id=valid_id("agent", agent_id)
    )
    await api_of(request).send(request, command)
    return {"message": f"Memory id={memory_id} successfully deleted"}


@post(ARCHIVE, "passage", body=bodies.PassageCreateRequest)
async def create_passage(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Put a text into an archive."""
    valid_id("archive", archive_id)
    body = await body_of(request, bodies.PassageCreateRequest)
    wanted = [new_passage(request, body)]
    made = await insert_passages(request, InsertPassages(passages=wanted, archive_id=archive_id))
    return raw(made[1:-1])


@post(f"{ARCHIVE}/batch", "passages", body=bodies.PassageBatchCreateRequest)
async def create_passages(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Put several texts into an archive, all or none."""
    valid_id("archive", archive_id)
    body = await body_of(request, bodies.PassageBatchCreateRequest)
    wanted = [new_passage(request, passage, number) for number, passage in enumerate(body.passages)]
    return raw(
        await insert_passages(request, InsertPassages(passages=wanted, archive_id=archive_id))
    )


@delete(f"{ARCHIVE}/{{passage_id:str}}", "nothing", status_code=204)
async def delete_passage(request: AnyRequest, archive_id: str, passage_id: str) -> None:
    """Remove a passage from an archive."""
    command = DeletePassages(
        passage_ids=[valid_id("passage", passage_id)], archive_id=valid_id("archive", archive_id)
    )
    await api_of(request).send(request, command)


@post("/v1/passages/search", "found passages", body=bodies.PassageSearchRequest)
async def search_passages(request: AnyRequest) -> Response[bytes]:
    """Search the passages of an archive, of an agent, or of all archives; without a query the
    newest."""
    body = await body_of(request, bodies.PassageSearchRequest)
    if body.archive_id:
        await document_of(request, ARCHIVE_ROWS, body.archive_id)
    if body.agent_id:
        valid_id("agent", body.agent_id)
    command = SearchPassages(
        asker=api_of(request).ids.new("search"),
        query=body.query or "",
        collection_ids=[body.archive_id] if body.archive_id else [],
        agent_id=body.agent_id or "",
        tags=body.tags or [],
        tag_match=body.tag_match_mode,
        after=body.start_date,
        before=body.end_date,
        limit=body.limit,
    )
    found = await search(request, command)
    documents = await passages_of(request, [passage.id for passage in found])
    shown: list[Json] = [
        {"passage": documents[passage.id], "score": passage.score, "metadata": {}}
        for passage in found
        if passage.id in documents
    ]
    return raw(to_json(shown))


@get("/v1/embeddings/total_storage_size", "size in GB")
async def total_storage_size(request: AnyRequest) -> Response[bytes]:
    """The storage of all passages' vectors."""
    found = filter_of(Query(), org_of(request))
    api = api_of(request)
    total = await api.reads.first(VECTORS, found, document="coalesce(sum(v.bytes), 0)")
    return raw(to_json(int(total or b"0") / BYTES_PER_GB))


ARCHIVE_ROWS = Resource(kind="archive", view="memory.archive_view", document="v.fields")
VECTORS = Resource(kind="passage", view="memory.embedding_size_view", document="v.bytes")


def new_passage(
    request: AnyRequest, body: CreateArchivalMemory, number: int | None = None
) -> NewPassage:
    """A passage with an id of its own; with an Idempotency-Key the same one each time."""
    scope = [] if number is None else [str(number)]
    metadata = getattr(body, "metadata", None) or {}
    return NewPassage(
        id=api_of(request).new_id(request, "passage", request.url.path.rstrip("/"), *scope),
        text=body.text.replace("\x00", ""),
        tags=body.tags,
        metadata=metadata,
        created_at=body.created_at,
    )


async def insert_passages(request: AnyRequest, command: InsertPassages) -> bytes:
    """Send an insert; its passages as clients read them, in their order."""
    ids = [passage.id for passage in command.passages]
    await api_of(request).send(
        request, command, message_id=f"insert-{ids[0]}", seconds_max=INSERT_SECONDS_MAX
    )
    documents = await passages_of(request, ids)
    return to_json([documents[passage_id] for passage_id in ids if passage_id in documents])


async def passages_of(request: AnyRequest, ids: Sequence[str]) -> dict[str, JsonObject]:
    """These passages as clients read them, by their ids."""
    values = {"org": org_of(request), "ids": [*ids]}
    found = Filter(["v.org = %(org)s", "v.id = any(%(ids)s)"], values)
    page = await api_of(request).reads.page(PASSAGES, found, Slice(limit=len(ids)))
    return {passage["id"]: passage for passage in from_json(page)}


async def time_zone(request: AnyRequest, agent_id: str) -> tzinfo:
    """The zone in which an agent reads times."""
    return zone_named((await document_of(request, AGENTS, agent_id, document=TIME_ZONE)).decode())


async def together[A, B](task: Awaitable[A], other: Awaitable[B]) -> tuple[A, B]:
    """The results of both, done at once; if both fail, the first task's exception."""
    first, second = await asyncio.gather(task, other, return_exceptions=True)
    for outcome in (first, second):
        if isinstance(outcome, BaseException):
            raise outcome
    return cast("A", first), cast("B", second)


async def search(request: AnyRequest, command: SearchPassages) -> list[FoundPassage]:
    """The passages that match a search, the best first."""
    reply = await api_of(request).send(
        request,
        command,
        message_id=command.asker,
        keyed=False,
        seconds_max=EMBEDDING_SECONDS_MAX,
    )
    return FoundPassages.model_validate(reply.result).passages


def moment(at: Json, zone: tzinfo) -> str:
    """A time of a document in a time zone."""
    return in_zone(str(at), zone).isoformat()


def bound(name: str, text: str | None, zone: tzinfo) -> datetime | None:
    """A bound in time; raises the 422 that says how one is written."""
    if not text or not text.strip():
        return None
    read = first_moment if name.startswith("start") else last_moment
    try:
        return read(text, zone)
    except ValueError:
        detail = f"`{name}` is '{text[:100]}', which is no time that is understood: use {FORMS}"
        raise Problem(422, {"detail": detail}) from None
