"""Answers of V1 that every resource makes in the same way: pages, counts, documents, and the 404
for what is missing."""

from __future__ import annotations

from litestar import Response

from libs.contracts.letta import error_bodies
from services.api.adapters.memory.agent_file_blocks import MARK, with_file_blocks
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries
from services.api.adapters.resource_query_builder import (
    Filter,
    Resource,
    Slice,
    UnknownCursor,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, valid_id
from services.api.v1.secret_sealing import with_opened_secrets


async def must_exist(request: AnyRequest, resource: Resource, resource_id: str) -> None:
    """Raise the 404 that names a row that is not there, or the 422 of what is no id of one."""
    known = valid_id(resource.kind, resource_id)
    if not await api_of(request).reads.exists(resource, org_of(request), known):
        raise missing(resource.kind, resource_id)


async def answer_page(
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
    found = filter_of(page, org_of(request)) if found is None else found
    api = api_of(request)
    documents = await api.reads.page(
        resource, found, slice_of(page), key=key, document=document, bytes_max=bytes_max
    )
    return raw(await fill_in(request, documents))


async def answer_count(request: AnyRequest, resource: Resource, found: Filter) -> Response[bytes]:
    """The number of the rows `found`."""
    count = await api_of(request).reads.count(resource, found)
    return raw(str(count).encode())


async def answer_document(
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
    body = await api.reads.one(resource, org_of(request), known, document)
    if body is None:
        raise missing(resource.kind, resource_id)
    return await fill_in(request, body)


async def fill_in(request: AnyRequest, document: bytes) -> bytes:
    """A document with what a statement only leaves a place for: secrets, and files."""
    api = api_of(request)
    opened = with_opened_secrets(api.sealer, document)
    if MARK not in opened:
        return opened
    queries = AgentFolderQueries(api.reads.database)
    return await with_file_blocks(queries, org_of(request), opened)


def missing(kind: str, name: str) -> Problem:
    """The 404 that says what is not there."""
    return Problem(404, error_bodies.not_found(kind, name))


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
