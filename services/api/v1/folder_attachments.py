"""Give folders to agents, with the tools for their files, and take them away again."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from libs.contracts.agent.agents import AttachTool, DetachTool
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import error_bodies
from libs.contracts.letta.all_request_bodies import CreateAgent, UpdateAgent
from libs.contracts.memory.agent_folders import FOLDERS_ATTACHED_MAX, AttachFolder, DetachFolder
from libs.contracts.memory.folders import CreateFolder
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, context_of
from services.api.v1.read_model_responses import document_of

FILES_MAX = "v.files_max::text"
FILE_CHARS_MAX = "v.file_chars_max::text"
AGENT_FILES = Resource(kind="agent", view="agent.agent_view", document=FILES_MAX)
NAME_AND_EMBEDDING = "json_build_object('name', v.name, 'embedding_config', v.embedding_config)"
FOLDER_FIELDS = frozenset({"folder_ids", "source_ids"})


async def wanted_folders(request: AnyRequest, body: CreateAgent | UpdateAgent) -> list[str] | None:
    """The folders that an agent is to have, each once; None where the request does not say.
    `source_ids` is the older name of `folder_ids`, which counts if both are given. Raises the 404
    that names a folder that is not there, and the 422 for too many."""
    given = body.source_ids if body.folder_ids is None else body.folder_ids
    if given is None:
        return None
    wanted = list(dict.fromkeys(given))
    if len(wanted) > FOLDERS_ATTACHED_MAX:
        detail = (
            f"`folder_ids`: {len(wanted)} folders are too many, an agent has at most"
            f" {FOLDERS_ATTACHED_MAX}: name fewer"
        )
        raise Problem(422, {"detail": detail})
    if wanted:
        unknown = await queries_of(request).unknown_folders(org_of(request), wanted)
        if unknown:
            raise Problem(404, error_bodies.not_found("folder", unknown[0]))
    return wanted


async def files_max(request: AnyRequest, agent_id: str) -> int:
    """The number of files that an agent may have open; raises the 404 that names it."""
    return int(from_json(await document_of(request, AGENT_FILES, agent_id)))


async def replace(request: AnyRequest, agent_id: str, wanted: list[str]) -> None:
    """Have an agent see these folders, and no others."""
    before = await queries_of(request).folders_of_agent(org_of(request), agent_id)
    gone = [folder_id for folder_id in before if folder_id not in wanted]
    for folder_id in gone:
        try:
            await detach_folder_alone(request, agent_id, folder_id)
        except Problem as problem:  # somebody else has detached it
            if problem.status != 404:
                raise
    await attach(request, agent_id, *(folder_id for folder_id in wanted if folder_id not in before))
    if gone and not wanted:
        await detach_file_tools(request, agent_id)


async def attach(request: AnyRequest, agent_id: str, *folder_ids: str) -> None:
    """Attach folders to an agent, and the tools for their files. The tools come last: a request
    that detaches them because it saw no folder looks for folders once more afterwards."""
    if not folder_ids:
        return
    api, most = api_of(request), await files_max(request, agent_id)
    for folder_id in folder_ids:
        name = api.new_id(request, "cmd", request.url.path, folder_id)
        command = AttachFolder(agent_id=agent_id, folder_id=folder_id, files_max=most)
        await api.send(request, command, message_id=name)
    await attach_file_tools(request, agent_id)


async def detach(request: AnyRequest, agent_id: str, folder_id: str) -> None:
    """Detach a folder from an agent, and with its last folder the tools for files."""
    if await detach_folder_alone(request, agent_id, folder_id) == 0:
        await detach_file_tools(request, agent_id)


async def detach_folder_alone(request: AnyRequest, agent_id: str, folder_id: str) -> int:
    """Detach a folder alone, without the tools; returns how many folders the agent has left."""
    api = api_of(request)
    command = DetachFolder(agent_id=agent_id, folder_id=folder_id)
    name = api.new_id(request, "cmd", request.url.path, folder_id, "detach")
    return int(str((await api.send(request, command, message_id=name)).result["left"]))


async def attach_file_tools(request: AnyRequest, agent_id: str) -> None:
    """Attach the tools for files to an agent; those that it has already stay."""
    api = api_of(request)
    for tool in FILE_TOOLS:
        command = AttachTool(agent_id=agent_id, tool_id=tool.id)
        await api.send(request, command, message_id=api.ids.new("cmd"), keyed=False)


async def detach_file_tools(request: AnyRequest, agent_id: str) -> None:
    """Detach the tools for files from an agent; those that it does not have are skipped. If another
    request has attached a folder meanwhile, the tools are attached again."""
    api = api_of(request)
    for tool in FILE_TOOLS:
        command = DetachTool(agent_id=agent_id, tool_id=tool.id)
        reply = await api.bus.request(command, context_of(request, api.ids.new("cmd"), ""))
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
            raise refusal_problem(reply)
    if await queries_of(request).folders_of_agent(org_of(request), agent_id):
        await attach_file_tools(request, agent_id)


async def create_default_folder(request: AnyRequest, agent_id: str) -> str:
    """A folder of a new agent's own, called after it; returns its id, which follows from the
    agent's. Where another folder has the name, the agent's id is added."""
    api, folder_id = api_of(request), derived_id("source", agent_id, "default")
    agent: dict[str, Any] = from_json(
        await document_of(request, AGENT_FILES, agent_id, document=NAME_AND_EMBEDDING)
    )
    name = f"{agent['name']} External Data Source"
    command = CreateFolder(
        folder_id=folder_id, name=name, embedding_config=agent["embedding_config"]
    )
    reply = await api.bus.request(command, context_of(request, f"create-{folder_id}"))
    if isinstance(reply, Rejected) and reply.code == CONFLICT:
        command = command.model_copy(update={"name": f"{name} ({agent_id})"})
        reply = await api.bus.request(command, context_of(request, f"create-{folder_id}-named"))
    if isinstance(reply, Rejected):
        raise refusal_problem(reply)
    return folder_id


def queries_of(request: AnyRequest) -> AgentFolderQueries:
    """The queries about folders and agents."""
    return AgentFolderQueries(api_of(request).reads.database)
