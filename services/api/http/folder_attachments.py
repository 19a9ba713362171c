"""Give folders to agents, with the tools for their files, and take them away again."""

from __future__ import annotations

from pydantic_core import from_json

from libs.contracts.agent_folders import AttachFolder, DetachFolder
from libs.contracts.agent_tools import AttachTool, DetachTool
from libs.contracts.base_tools.builtin_tools import FILE_TOOLS
from libs.contracts.bus_messages import NOT_FOUND, Rejected
from libs.contracts.letta import errors
from services.api.adapters.agent_folder_queries import AgentFolderQueries
from services.api.adapters.resource_query_builder import Resource
from services.api.http.error_responses import Problem, refused
from services.api.http.handler_helpers import ORG, api_of, document_of
from services.api.http.request_parsing import AnyRequest, context_of

FILES_MAX = "(('{' || v.body || '}')::json->>'max_files_open')"
FILE_CHARS_MAX = "(('{' || v.body || '}')::json->>'per_file_view_window_char_limit')"
AGENT_FILES = Resource(kind="agent", view="agent.agent_view", document=FILES_MAX)


async def known_folders(request: AnyRequest, folder_ids: list[str]) -> list[str]:
    """These folders, each once; raises the 404 that names one that is not there."""
    wanted = list(dict.fromkeys(folder_ids))
    if wanted:
        queries = AgentFolderQueries(api_of(request).reads.database)
        unknown = await queries.unknown_folders(ORG, wanted)
        if unknown:
            raise Problem(404, errors.not_found("folder", unknown[0]))
    return wanted


async def files_max(request: AnyRequest, agent_id: str) -> int:
    """How many files an agent may have open; raises the 404 that names it."""
    return int(from_json(await document_of(request, AGENT_FILES, agent_id)))


async def attach(request: AnyRequest, agent_id: str, folder_id: str) -> None:
    """Let an agent see a folder. It has the tools first: without them, it would not be shown its
    folders."""
    api, most = api_of(request), await files_max(request, agent_id)
    for tool in FILE_TOOLS:
        name = api.new_id(request, "cmd", request.url.path, folder_id, tool.name)
        command = AttachTool(agent_id=agent_id, tool_id=tool.id)
        await api.send(request, command, message_id=name)
    name = api.new_id(request, "cmd", request.url.path, folder_id)
    attached = AttachFolder(agent_id=agent_id, folder_id=folder_id, files_max=most)
    await api.send(request, attached, message_id=name)


async def detach(request: AnyRequest, agent_id: str, folder_id: str) -> None:
    """Let an agent see a folder no more. With the last one, the tools for files go."""
    api = api_of(request)
    done = await api.send(request, DetachFolder(agent_id=agent_id, folder_id=folder_id))
    if done.result["left"]:
        return
    for tool in FILE_TOOLS:
        name = api.new_id(request, "cmd", request.url.path, folder_id, tool.name)
        command = DetachTool(agent_id=agent_id, tool_id=tool.id)
        reply = await api.bus.request(command, context_of(request, name, ""))
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:  # somebody has taken it away
            raise refused(reply)
