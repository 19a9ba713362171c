"""The folders of an agent, which V1 also calls its sources, and the files that it has open."""

from __future__ import annotations

from itertools import batched
from typing import Annotated, Any, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.memory.agent_folders import CloseFiles, FileView, OpenFiles
from services.api.adapters.memory.agent_file_blocks import files_at_once
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries
from services.api.adapters.resource_query_builder import Resource, Slice, Where, filter_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, query_of, valid_id
from services.api.openapi.operation import get, patch
from services.api.resources.agents.agents import AGENTS
from services.api.resources.memory.folders import FOLDERS
from services.api.resources.tools.agent_tools import answer_change
from services.api.v1.folder_attachments import FILE_CHARS_MAX, attach, detach, files_max
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    document_of,
    must_exist,
)

FILES = Resource(
    kind="file",
    view="memory.agent_file_view",
    document=(
        "json_build_object('id', 'file_agent-' || substr(v.id, 6), 'file_id', v.id, 'file_name',"
        " v.name, 'folder_id', v.folder_id, 'folder_name', v.folder_name, 'is_open', v.is_open,"
        " 'last_accessed_at', v.opened_at, 'visible_content', null, 'start_line', v.first_line,"
        " 'end_line', v.last_line, 'lines', v.lines)"
    ),
    created_view="memory.created_file_view",
)
PATHS = ["/v1/agents/{agent_id:str}/folders", "/v1/agents/{agent_id:str}/sources"]
FILES_PATH = "/v1/agents/{agent_id:str}/files"
SEEN = (
    "v.id = any(array(select a.folder_id from memory.agent_folder_view a"
    " where a.agent_id = %(agent)s and a.org = %(org)s))"
)


class AgentFolderPage(Page):
    """A page of an agent's folders."""


class AgentFilePage(Page):
    """A page of the files that an agent sees; `cursor` is the older name of `after`."""

    cursor: Name | None = None
    is_open: Annotated[bool | None, Where("v.is_open = {}")] = None
    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    order_by: Literal["created_at"] = "created_at"


@get(PATHS, "folders", query=AgentFolderPage)
async def list_agent_folders(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the folders of an agent."""
    page = query_of(request, AgentFolderPage)
    await must_exist(request, AGENTS, agent_id)
    attached = filter_of(page, org_of(request)).by_key(SEEN, agent=agent_id)
    return await answer_page(request, FOLDERS, page, attached)


@patch(f"{PATHS[0]}/attach/{{folder_id:str}}", "null, or the agent")
async def attach_folder(request: AnyRequest, agent_id: str, folder_id: str) -> Response[bytes]:
    """Attach a folder to an agent, which gets the tools for files."""
    await attach(request, valid_id("agent", agent_id), valid_id("source", folder_id))
    return await answer_change(request, agent_id)


@patch(f"{PATHS[0]}/detach/{{folder_id:str}}", "null, or the agent")
async def detach_folder(request: AnyRequest, agent_id: str, folder_id: str) -> Response[bytes]:
    """Detach a folder from an agent, and with the last one the tools for files."""
    await detach(request, valid_id("agent", agent_id), valid_id("source", folder_id))
    return await answer_change(request, agent_id)


@patch(f"{PATHS[1]}/attach/{{source_id:str}}", "agent")
async def attach_source(request: AnyRequest, agent_id: str, source_id: str) -> Response[bytes]:
    """Attach a folder to an agent, by its older name."""
    await attach(request, valid_id("agent", agent_id), valid_id("source", source_id))
    return await answer_document(request, AGENTS, agent_id)


@patch(f"{PATHS[1]}/detach/{{source_id:str}}", "agent")
async def detach_source(request: AnyRequest, agent_id: str, source_id: str) -> Response[bytes]:
    """Detach a folder from an agent, by its older name."""
    await detach(request, valid_id("agent", agent_id), valid_id("source", source_id))
    return await answer_document(request, AGENTS, agent_id)


@get(FILES_PATH, "files and a cursor", query=AgentFilePage)
async def list_agent_files(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the files that an agent sees the names of, and what it sees of those that are open."""
    page = query_of(request, AgentFilePage)
    api, org = api_of(request), org_of(request)
    agent = valid_id("agent", agent_id)
    chars_max = int(from_json(await document_of(request, AGENTS, agent, document=FILE_CHARS_MAX)))
    limit = 100 if page.limit is None else page.limit
    after = file_of(page.after or page.cursor)
    part = Slice(file_of(page.before), after, limit + 1, page.order)
    found = filter_of(page, org).by_key("v.agent_id = %(agent)s", agent=agent)
    files: list[dict[str, Any]] = from_json(await api.reads.page(FILES, found, part))
    shown = files[-limit:] if page.before and not after else files[:limit]
    queries = AgentFolderQueries(api.reads.database)
    opened = [(file, chars_max) for file in shown if limit and file["is_open"]]
    for some in batched(opened, files_at_once(chars_max)):
        contents = await queries.visible_contents(org, some)
        for (file, _), content in zip(some, contents, strict=True):
            file["visible_content"] = content
    for file in files:
        del file["lines"]
    last = shown[-1]["id"] if shown and limit else None
    body = {"files": shown, "next_cursor": last, "has_more": len(files) > limit}
    return raw(to_json(body))


@patch(f"{FILES_PATH}/close-all", "names of files")
async def close_all_files(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Close the files that an agent has open."""
    await files_max(request, valid_id("agent", agent_id))
    return await close_files(request, CloseFiles(agent_id=agent_id))


@patch(f"{FILES_PATH}/{{file_id:str}}/open", "names of files")
async def open_file(request: AnyRequest, agent_id: str, file_id: str) -> Response[bytes]:
    """Open a file for an agent. The answer names those that were closed to make room."""
    most = await files_max(request, valid_id("agent", agent_id))
    view = FileView(file_id=valid_id("file", file_id))
    return await close_files(request, OpenFiles(agent_id=agent_id, files=[view], files_max=most))


@patch(f"{FILES_PATH}/{{file_id:str}}/close", "message")
async def close_file(request: AnyRequest, agent_id: str, file_id: str) -> JsonObject:
    """Close a file that an agent has open."""
    await files_max(request, valid_id("agent", agent_id))
    files = [valid_id("file", file_id)]
    await api_of(request).send(request, CloseFiles(agent_id=agent_id, file_ids=files))
    return {"message": f"File id={file_id} successfully closed"}


async def close_files(request: AnyRequest, command: OpenFiles | CloseFiles) -> Response[bytes]:
    """Send a command that closes files; the answer is their names."""
    api = api_of(request)
    result: Any = (await api.send(request, command)).result
    queries = AgentFolderQueries(api.reads.database)
    names = await queries.names_of_files(org_of(request), result["closed"])
    return raw(to_json(names))


def file_of(cursor: str | None) -> str | None:
    """The file that an item of a list of files is about."""
    return f"file-{cursor.removeprefix('file_agent-').removeprefix('file-')}" if cursor else None
