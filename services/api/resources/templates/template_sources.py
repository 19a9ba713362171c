"""Sources of templates: agents that exist, and agent files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.api.templates import TemplateContent
from libs.contracts.bus_messages import JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.template_requests import CreateTemplate
from libs.contracts.tools.tools import CreateTool, DeleteTool
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.resources.agents.agents import AGENTS
from services.api.v1.agent_documents import ALL_RELATIONSHIPS, SEALED_SECRETS, document_with
from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.entry_problems import AgentFileInvalid
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings
from services.api.v1.read_model_responses import document_of
from services.api.v1.template_files import FileContent, content_of_file, read_content
from services.api.v1.template_snapshots import content_of_agent

SHOWN = document_with(ALL_RELATIONSHIPS - {"agent.secrets", "agent.managed_group"})
ERRORS_SHOWN_MAX = 5
UNKNOWN_OUTCOME = 500  # and more: a command may have been taken, or is when it is sent again


@asynccontextmanager
async def content_from(request: AnyRequest, body: CreateTemplate) -> AsyncIterator[TemplateContent]:
    """The content of a template made of an agent or of an agent file. Tools that the file defines
    are made before, and deleted again where the template is refused: where it is not known whether
    it is there, as while a service is away, they stay. Raises Problem."""
    if body.type == "agent":
        assert body.agent_id is not None, "a body that was read names its source"
        yield await content_from_agent(request, body.agent_id)
        return
    assert body.agent_file is not None, "a body that was read names its source"
    options = options_of(request, body)
    file, found, present = await read(request, body.agent_file, options)
    ids: dict[str, str] = {}
    try:
        for command in found.tools:
            ids[command.tool.id] = await make_tool(request, options, command)
        yield content_of_file(found, file, ids)
    except Problem as problem:
        if problem.status >= UNKNOWN_OUTCOME:
            raise
        new = [each for each in ids.values() if each not in present.tools.values()]
        await delete_tools(request, options, new)
        raise


async def content_from_agent(request: AnyRequest, agent_id: str) -> TemplateContent:
    """The content of a template of an agent. Raises the 404 that names the agent."""
    agent: dict[str, Any] = from_json(await document_of(request, AGENTS, agent_id, document=SHOWN))
    sealed = await api_of(request).reads.one(
        AGENTS, org_of(request), agent_id, document=SEALED_SECRETS
    )
    return content_of_agent(agent, from_json(sealed or b"{}"))


def options_of(request: AnyRequest, body: CreateTemplate) -> ImportOptions:
    """The options of reading a file for a template. A request that updates existing tools has
    accepted them all; otherwise calls of its tools need an approval."""
    api = api_of(request)
    return ImportOptions(
        import_id=api.new_id(request, "import", "template"),
        now=api.clock.now(),
        override_existing_tools=body.update_existing_tools,
        tools_accepted=body.update_existing_tools,
        strip_messages=True,
    )


async def read(
    request: AnyRequest, document: JsonObject, options: ImportOptions
) -> tuple[AgentFile, FileContent, PresentThings]:
    """A file, what a template takes of it, and what is there of what it names. Raises the 422 that
    names its entries."""
    queries = TemplateQueries(api_of(request).reads.database)
    try:
        raw = to_json(document)
        files = api_of(request).text_works.agent_files
        file = await files.run(request, len(raw), read_file, raw)
        tools = await queries.tools_named(org_of(request), file.tool_names)
        present = PresentThings(
            tools={name: tool_id for name, (tool_id, _) in tools.items()},
            tool_sources={name: source for name, (_, source) in tools.items()},
        )
        content = await files.run(request, len(raw), read_content, file, options, present)
        return file, content, present
    except AgentFileInvalid as invalid:
        errors = "; ".join(invalid.errors[:ERRORS_SHOWN_MAX])
        raise Problem(422, {"detail": f"`agent_file`: {errors}"}) from None


async def make_tool(request: AnyRequest, options: ImportOptions, command: CreateTool) -> str:
    """Make a tool of a file, or give one that is there the code of the file; returns its id."""
    name = derived_id("cmd", options.import_id, command.tool.id)
    reply = await api_of(request).send(request, command, message_id=name, keyed=False)
    return str(reply.result["tool_id"])


async def delete_tools(
    request: AnyRequest, options: ImportOptions, tool_ids: Sequence[str]
) -> None:
    """Delete tools that were made for a template which is not there."""
    for tool_id in tool_ids:
        name = derived_id("cmd", options.import_id, tool_id, "undo")
        command = DeleteTool(tool_id=tool_id)
        await api_of(request).send(request, command, message_id=name, keyed=False)
