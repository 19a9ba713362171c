"""History of a memory block: its versions, the author of each line, differences of versions, and
the way back. None of it is in V1."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from libs.contracts.letta import error_bodies
from libs.contracts.memory.blocks import RestoreBlock
from services.api.adapters.memory.block_history_queries import VersionSlice
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, parse, query_of, valid_id
from services.api.openapi.operation import get, post
from services.api.resources.memory.blocks import BLOCKS
from services.api.v1.block_blame import diff, page_of_blame
from services.api.v1.read_model_responses import answer_document

VERSIONS_MAX = 100
VERSION_DIGITS_MAX = 9
BLAMED_VERSIONS_MAX = 200
BLAMED_LINES_MAX = 1_000

type Version = Annotated[int, Field(ge=1, le=10**VERSION_DIGITS_MAX - 1)]


class HistoryPage(Query):
    """A page of the versions of a block; the cursors are versions."""

    before: Version | None = None
    after: Version | None = None
    limit: Annotated[int, Field(ge=1, le=VERSIONS_MAX)] = 50
    order: Literal["asc", "desc"] = "desc"


class TwoVersions(Query):
    """Which versions are compared: the newest with the one before it, unless said otherwise."""

    from_version: Version | None = None
    to_version: Version | None = None


class BlamedLines(Query):
    """A page of the lines of a block: those behind the line with the number `after`."""

    after: Annotated[int, Field(ge=0, le=10**VERSION_DIGITS_MAX - 1)] = 0
    limit: Annotated[int, Field(ge=1, le=BLAMED_LINES_MAX)] = BLAMED_LINES_MAX


class Undo(BaseModel):
    """Which version is wanted back (without one, that before the newest), and which one must still
    be the newest."""

    model_config = ConfigDict(extra="forbid")

    to_version: Version | None = None
    if_version: Version | None = None


@get("/v1/blocks/{block_id:str}/history", "versions", query=HistoryPage)
async def list_block_versions(request: AnyRequest, block_id: str) -> Response[bytes]:
    """List the versions of a memory block, the newest first: what each changed, by whom and why."""
    await newest(request, block_id)
    page = query_of(request, HistoryPage)
    part = VersionSlice(org_of(request), block_id, page.after, page.before, page.limit, page.order)
    return raw(await api_of(request).block_history.versions(part))


@get("/v1/blocks/{block_id:str}/versions/{version:str}", "block")
async def retrieve_block_version(
    request: AnyRequest, block_id: str, version: str
) -> Response[bytes]:
    """Retrieve a memory block as it was in one of its versions."""
    await newest(request, block_id)
    return raw(await fields_at(request, block_id, version_number(version)))


@get("/v1/blocks/{block_id:str}/diff", "difference", query=TwoVersions)
async def compare_block_versions(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Compare two versions of a memory block: the fields that differ, the value line by line."""
    asked = query_of(request, TwoVersions)
    to_version = asked.to_version or await newest(request, block_id)
    from_version = asked.from_version or max(to_version - 1, 1)
    before, after = [
        from_json(await fields_at(request, block_id, version))
        for version in (from_version, to_version)
    ]
    fields = {
        name: {"before": before.get(name), "after": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if name != "value" and before.get(name) != after.get(name)
    }
    names = (f"version {from_version}", f"version {to_version}")
    texts = (before["value"], after["value"])
    comparisons = api_of(request).text_works.comparisons
    shown = {
        "block_id": block_id,
        "from_version": from_version,
        "to_version": to_version,
        "fields": fields,
        "value_diff": await comparisons.run(request, sum(map(len, texts)), diff, *texts, *names),
    }
    return raw(to_json(shown))


@get("/v1/blocks/{block_id:str}/blame", "lines", query=BlamedLines)
async def blame_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Say of each line of a memory block when it was written, by whom and why, a page of lines at a
    time. Lines that are older than the 200 newest changes count as written by the oldest of
    these."""
    version = await newest(request, block_id)
    page = query_of(request, BlamedLines)
    history = api_of(request).block_history
    found = await history.values(org_of(request), block_id, BLAMED_VERSIONS_MAX)
    comparisons = api_of(request).text_works.comparisons
    blame = await comparisons.run(request, len(found), page_of_blame, found, page.after, page.limit)
    return raw(to_json({"block_id": block_id, "version": version, **blame}))


@post("/v1/blocks/{block_id:str}/undo", "block", body=Undo)
async def undo_block_change(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Give a memory block the fields of an earlier version, as one more version: nothing is lost,
    and an undo is undone in the same way."""
    asked = parse(await request.body() or b"{}", Undo)
    version = asked.to_version
    if_version = asked.if_version
    if version is None:
        newest_version = if_version or await newest(request, block_id)
        if newest_version == 1:
            detail = f"Block {block_id} was not changed since it was created: nothing to undo"
            raise Problem(409, {"detail": detail})
        # Whoever wants the last change undone means the one that was the last just now.
        version, if_version = newest_version - 1, newest_version
    command = RestoreBlock(
        block_id=valid_id("block", block_id), version=version, if_version=if_version
    )
    await api_of(request).send(request, command)
    return await answer_document(request, BLOCKS, block_id)


async def newest(request: AnyRequest, block_id: str) -> int:
    """The newest version in which a block was there; raises the 404 for one that never was."""
    known = valid_id("block", block_id)
    version = await api_of(request).block_history.newest_version(org_of(request), known)
    if version is None:
        raise Problem(404, error_bodies.not_found("block", block_id))
    return version


def version_number(version: str) -> int:
    """The number of a version; 0, which none has, for what is no number of one."""
    return int(version) if version.isdecimal() and len(version) <= VERSION_DIGITS_MAX else 0


async def fields_at(request: AnyRequest, block_id: str, version: int) -> bytes:
    """A block as it was in a version; raises the 404 for a version that it never had."""
    known = valid_id("block", block_id)
    fields = await api_of(request).block_history.fields_at(org_of(request), known, version)
    if fields is None:
        raise Problem(404, {"detail": f"Block '{block_id}' has no version {version}"})
    return fields
