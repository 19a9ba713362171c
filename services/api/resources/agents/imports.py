"""Agents that are made from files."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import CancelImport, ImportForm, ImportSource, RequestImport
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.agents.uploaded_lines import UploadedParts
from services.api.adapters.memory.uploaded_file_store import (
    Upload,
)
from services.api.adapters.resource_query_builder import Where
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import Api, api_of
from services.api.http.multipart_upload import FileWriter, read_form, upload_problems
from services.api.http.raw_json import raw
from services.api.http.request_parsing import PAGE_ITEMS_MAX, AnyRequest, Page, query_of, valid_id
from services.api.openapi.operation import get, post
from services.api.v1.import_request import (
    IMPORTS,
    ImportQuery,
    answer_later,
    imported_agents,
    options_of,
    refusal_of_forgotten,
    wants_no_answer,
    with_fields,
)
from services.api.v1.read_model_responses import answer_document, answer_page

BODY_BYTES_BESIDES = 1 << 20  # of a form, besides the file in it
FIELD_BYTES_MAX = 256 * 1024
# Whether there ever was such an import.
REQUESTED = "select 1 from api.created_import_view where id = %s and org = %s"
# How the first line of the full form begins.
BEGIN_OF_FULL_FORM = (b'{"kind": "header"', b'{"kind":"header"')


class ImportPage(Page):
    """A page of imports."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 50
    order_by: Literal["created_at"] = "created_at"
    status: Annotated[Name | None, Where("v.status = {}", key=True)] = None


@post(
    "/v1/agents/import", "ids of the imported agents", query=ImportQuery, request_max_body_size=None
)
async def import_agent(request: AnyRequest) -> Response[bytes]:
    """Make agents from a file of any form, as `file` of a form; all of them, or none."""
    api = api_of(request)
    import_id = api.new_id(request, "import")
    known = await api.reads.one(IMPORTS, org_of(request), import_id)
    asked = query_of(request, ImportQuery)
    if known is None:
        if await api.reads.database.fetch_one(REQUESTED, [import_id, org_of(request)]):
            raise refusal_of_forgotten(import_id)
        known_already = "The same import is under way, or was made: look at GET /v1/imports"
        with upload_problems("send it again", known_already):
            async with AsyncExitStack() as place:
                asked = await receive_file(request, api, import_id, place)
    elif not wants_no_answer(request, asked):
        form = await read_form(request, take_no_place, leave_file, field_bytes_max=FIELD_BYTES_MAX)
        asked = with_fields(asked, form.fields)
    if wants_no_answer(request, asked):
        return await answer_later(request, import_id)
    agent_ids = await imported_agents(request, import_id)
    if agent_ids is None:
        return await answer_later(request, import_id)
    answer = raw(to_json({"agent_ids": agent_ids}))
    answer.headers["location"] = f"/v1/imports/{import_id}"
    return answer


class UnkeptFile:
    """Takes a file that is here already."""

    async def write(self, data: bytes | bytearray) -> None:
        """Take a part, and keep nothing of it."""


async def take_no_place() -> None:
    """Take no place from those who upload, since nothing is kept."""


async def leave_file(_file_name: str, _declared_type: str) -> FileWriter:
    """Keep nothing of a file that is sent again: its form alone says how to answer."""
    return UnkeptFile()


async def receive_file(
    request: AnyRequest, api: Api, import_id: str, place: AsyncExitStack
) -> ImportQuery:
    """Keep what comes, and request the import; of what is refused nothing is kept. It takes a place
    among those who upload when the form begins."""
    org = org_of(request)
    upload: Upload | None = None
    file_name = ""

    async def enter() -> None:
        await place.enter_async_context(api.uploads.turn(org))

    async def begin(sent_name: str, _declared: str) -> FileWriter:
        nonlocal upload, file_name
        file_name = sent_name[:255].replace("\x00", "")
        announced = (request.content_length or 0) - BODY_BYTES_BESIDES
        upload = await api.uploads.begin(org, import_id, announced)
        return upload

    try:
        form = await read_form(request, enter, begin, field_bytes_max=FIELD_BYTES_MAX)
        assert upload is not None, "a form without a file is refused"
        asked = with_fields(query_of(request, ImportQuery), form.fields)
        await upload.finish()
        form_of_file = await form_of(api, org, import_id)
        options = options_of(request, asked, form_of_file)
        source = ImportSource(form=form_of_file, file_name=file_name)
        command = RequestImport(import_id=import_id, source=source, options=options)
        await api.send(request, command, message_id=f"request-{import_id}", keyed=False)
    except BaseException:  # also of who hangs up
        if upload is not None:
            await api.uploads.discard(import_id)
        raise
    return asked


async def form_of(api: Api, org: str, import_id: str) -> ImportForm:
    """Of which form an uploaded file is; of one that cannot be unpacked its import says why."""
    try:
        begins = await UploadedParts(api.reads.database).begins_with(org, import_id)
    except BadSource:
        begins = b""
    return "heeler" if begins.startswith(BEGIN_OF_FULL_FORM) else "letta"


@get("/v1/imports", "imports", query=ImportPage)
async def list_imports(request: AnyRequest) -> Response[bytes]:
    """List imports, the newest first."""
    page = query_of(request, ImportPage)
    return await answer_page(request, IMPORTS, page, key=page.order_by)


@get("/v1/imports/{import_id:str}", "import")
async def retrieve_import(request: AnyRequest, import_id: str) -> Response[bytes]:
    """Retrieve an import by its id: how far it is, and what was wrong."""
    return await answer_document(request, IMPORTS, import_id)


@post("/v1/imports/{import_id:str}/cancel", "import")
async def cancel_import(request: AnyRequest, import_id: str) -> Response[bytes]:
    """Give an import up, and take back what it has made."""
    valid_id("import", import_id)
    await api_of(request).send(request, CancelImport(import_id=import_id))
    return await answer_document(request, IMPORTS, import_id)
