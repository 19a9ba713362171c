"""The files of folders: upload, list, retrieve, delete."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import PurePath
from typing import Annotated, Any, Literal

from litestar import Response
from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from libs.contracts.letta import error_bodies
from libs.contracts.letta.file_types import FILE_TYPES, type_of
from libs.contracts.letta.folders import DuplicateHandling
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.memory.files import AddFile, DeleteFile
from services.api.adapters.memory.uploaded_file_store import (
    Upload,
)
from services.api.adapters.resource_query_builder import Resource, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import Api, api_of
from services.api.http.multipart_upload import FileWriter, read_form, upload_problems
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, query_of, valid_id
from services.api.openapi.operation import delete, get, post
from services.api.resources.memory.folders import FOLDERS, paths
from services.api.v1.read_model_responses import answer_page, document_of

FILES = Resource(
    kind="file",
    view="memory.file_view",
    document="v.document",
    created_view="memory.created_file_view",
)
# The text of a file stands in the answer on demand; so much of it in one.
CONTENT_CHARS_MAX = 20_000_000
WITH_CONTENT = """(v.document::jsonb || jsonb_build_object('content',
    (select string_agg(t.text, '' order by t.number) from memory.file_text_view t
     where t.file_id = v.id and t.org = v.org)))"""
FILE_NAME_CHARS_MAX = 255
BODY_BYTES_BESIDES = 256 * 1024  # of a form, besides the file in it


class UploadQuery(Query):
    """The options of an upload into a folder; a form may have them, too."""

    duplicate_handling: DuplicateHandling = "suffix"
    name: Name | None = None


class FileQuery(Query):
    """Whether the text of a file is shown."""

    include_content: bool = False


class FilePage(Page, FileQuery):
    """A page of files."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 1_000
    order_by: Literal["created_at"] = "created_at"
    check_status_updates: bool = True


@post(paths("/{folder_id:str}/upload"), "file", query=UploadQuery, request_max_body_size=None)
async def upload_file(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Upload a file to a folder, as `file` of a form; it is parsed and embedded afterwards."""
    api = api_of(request)
    folder: dict[str, Any] = from_json(await document_of(request, FOLDERS, folder_id))
    file_id = api.new_id(request, "file", folder_id)
    known = await api.reads.one(FILES, org_of(request), file_id) if has_key(request) else None
    if known is not None:
        return raw(known)
    known_already = "The same upload is under way, or was made: look at the files of the folder"
    with upload_problems("upload it again", known_already):
        async with AsyncExitStack() as place:
            return await receive_file(request, api, folder, file_id, place)


def has_key(request: AnyRequest) -> bool:
    """Whether a client can send the same upload again."""
    return bool(request.headers.get("idempotency-key"))


async def receive_file(
    request: AnyRequest, api: Api, folder: dict[str, Any], file_id: str, place: AsyncExitStack
) -> Response[bytes]:
    """Keep what comes, and put it into the folder; what is not put there is removed. It takes a
    place among those who upload when the form begins."""
    query = query_of(request, UploadQuery)
    upload: Upload | None = None
    wanted = ("", "")

    async def enter() -> None:
        await place.enter_async_context(api.uploads.turn(org_of(request)))

    async def begin(sent_name: str, declared: str) -> FileWriter:
        nonlocal upload, wanted
        wanted = name_and_type(query.name or "", sent_name, declared)
        announced = (request.content_length or 0) - BODY_BYTES_BESIDES
        upload = await api.uploads.begin(org_of(request), file_id, announced)
        return upload

    try:
        form = await read_form(request, enter, begin)
        assert upload is not None, "a form without a file is refused"
        asked = with_fields(query, form.fields)
        await upload.finish()
    except BaseException:  # also of who hangs up
        if upload is not None:
            await api.uploads.discard(file_id)
        raise
    try:
        reply = await api.send(
            request,
            AddFile(
                file_id=file_id,
                folder_id=folder["id"],
                name=asked.name or wanted[0],
                file_type=wanted[1],
                file_size=upload.size,
                sha256=upload.sha256,
                duplicates=asked.duplicate_handling,
                begun_at=upload.begun_at,
            ),
            message_id=f"add-{file_id}",
            keyed=False,
        )
    except Problem as refused:
        if refused.status < 500:
            await api.uploads.discard(file_id)
        raise
    if reply.result["skipped"]:
        await api.uploads.discard(file_id)
        existing = await document_of(request, FILES, str(reply.result["file_id"]))
        response = raw(existing)
        response.headers["X-Upload-Result"] = "skipped"
        return response
    return await as_added(request, folder["name"], file_id)


async def as_added(request: AnyRequest, folder_name: str, file_id: str) -> Response[bytes]:
    """A file as it was when it was added: by now it may have gone further."""
    file: dict[str, Any] = from_json(await document_of(request, FILES, file_id))
    file["file_name"] = f"{folder_name}/{file['file_name']}"
    beginning = {"error_message": None, "total_chunks": None, "chunks_embedded": None}
    return raw(to_json({**file, "processing_status": "parsing", **beginning}))


def with_fields(query: UploadQuery, fields: dict[str, str]) -> UploadQuery:
    """The options by the query or else by fields of the form. Raises the 422."""
    named = {name: fields[name] for name in ("duplicate_handling", "name") if fields.get(name)}
    try:
        return UploadQuery.model_validate({**named, **query.model_dump(exclude_unset=True)})
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "body")) from None


def name_and_type(name: str, sent_name: str, declared: str) -> tuple[str, str]:
    """The name that a file gets, and its type. Raises the 415 for a type that is not read, and the
    422 for a name that none has."""
    sent = PurePath(sent_name.replace("\\", "/")).name.replace("\x00", "")
    wanted = (name or sent).strip()
    if not wanted or len(wanted) > FILE_NAME_CHARS_MAX:
        detail = f"The file needs a name of 1 to {FILE_NAME_CHARS_MAX} characters: send `name`"
        raise Problem(422, {"detail": detail})
    file_type = type_of(sent or wanted, declared) or type_of(wanted, "")
    if file_type is None:
        detail = (
            f"The type of '{wanted}' ({declared or 'unknown'}) cannot be read: upload text,"
            f" Markdown, HTML, PDF, an office document or code, with one of the endings"
            f" {', '.join(sorted(FILE_TYPES))}"
        )
        raise Problem(415, {"detail": detail})
    return wanted, file_type


@get(paths("/{folder_id:str}/files"), "files", query=FilePage)
async def list_folder_files(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """List the files of a folder, the newest first."""
    await document_of(request, FOLDERS, folder_id)
    page = query_of(request, FilePage)
    document = ""
    if page.include_content:
        if await api_of(request).folders.chars(org_of(request), folder_id) > CONTENT_CHARS_MAX:
            detail = (
                f"The files have more than {CONTENT_CHARS_MAX:,} characters of text: leave out"
                " `include_content`, and retrieve each file with it"
            )
            raise Problem(413, {"detail": detail})
        document = WITH_CONTENT
    found = filter_of(page, org_of(request)).by_key("v.folder_id = %(folder)s", folder=folder_id)
    return await answer_page(request, FILES, page, found, document=document)


@get(paths("/{folder_id:str}/files/{file_id:str}"), "file", query=FileQuery)
async def retrieve_folder_file(
    request: AnyRequest, folder_id: str, file_id: str
) -> Response[bytes]:
    """Retrieve a file of a folder."""
    query = query_of(request, FileQuery)
    shown = WITH_CONTENT if query.include_content else FILES.document
    valid_id("source", folder_id)
    of_folder = f"case when v.folder_id = '{folder_id}' then ({shown})::text end"
    body = await document_of(request, FILES, file_id, document=of_folder)
    if body is None:
        raise Problem(404, error_bodies.not_found("file", file_id))
    return raw(body)


@delete(paths("/{folder_id:str}/{file_id:str}"), "nothing", status_code=204)
async def delete_folder_file(request: AnyRequest, folder_id: str, file_id: str) -> None:
    """Delete a file of a folder, with its passages."""
    command = DeleteFile(file_id=valid_id("file", file_id), folder_id=valid_id("source", folder_id))
    await api_of(request).send(request, command)
