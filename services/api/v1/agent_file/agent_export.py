"""Reads everything that is written into the agent file of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from services.api.adapters.agents.agent_file_queries import AgentFileQueries
from services.api.v1.agent_file.agent_file_document import Export, ExportedAgent
from services.api.v1.agent_file.exported_messages import with_said_results
from services.api.v1.agent_file.exported_things import texts


def group_members(document: JsonObject) -> list[str]:
    """The agents of the group that an agent manages, which are written with it."""
    group = document.get("managed_group")
    members = texts(group.get("agent_ids")) if isinstance(group, dict) else []
    return [agent_id for agent_id in members if agent_id != document["id"]]


async def read_export(
    queries: AgentFileQueries,
    org: str,
    documents: Sequence[JsonObject],
    *,
    at: datetime,
    conversation_id: str | None = None,
    scrub_messages: bool = False,
    skills: Sequence[JsonObject] = (),
) -> Export:
    """The export of agents, the first of which was asked for, by their V1 documents with all
    relationships. `conversation_id` names the conversation of the first one that is meant; without
    it, it is the agent's own."""
    agent_ids = [str(document["id"]) for document in documents]
    opened = await queries.files_of_agents(org, agent_ids)
    agents = []
    for place, (agent_id, document) in enumerate(zip(agent_ids, documents, strict=True)):
        meant = conversation_id if place == 0 else None
        conversation = meant or main_conversation(agent_id)
        found = [] if scrub_messages else await queries.messages(org, agent_id, conversation)
        messages = with_said_results(found)
        agents.append(
            ExportedAgent(
                document=document,
                messages=messages,
                in_context=[message.id for message in messages],
                files=opened[agent_id],
            )
        )
    named = {str(file["file_id"]): None for files in opened.values() for file in files}
    return Export(
        agents=agents,
        at=at,
        folders=await queries.folders(org, agent_ids),
        files=await queries.files(org, [*named]),
        mcp_servers=await queries.mcp_servers(org, servers_of(documents)),
        skills=skills,
    )


def servers_of(documents: Sequence[JsonObject]) -> list[str]:
    """The MCP servers whose tools these agents have."""
    found: dict[str, None] = {}
    for document in documents:
        tools = document.get("tools")
        for tool in tools if isinstance(tools, list) else []:
            metadata = tool.get("metadata_") if isinstance(tool, dict) else None
            server = metadata.get("mcp") if isinstance(metadata, dict) else None
            server_id = server.get("server_id") if isinstance(server, dict) else None
            if isinstance(server_id, str):
                found[server_id] = None
    return [*found]
