"""Agent files as what templates hold: their agents, blocks, tools and group, without their
messages, files and servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent_file import Definition, HistoryPart
from libs.contracts.api.templates import (
    TemplateAgent,
    TemplateBlock,
    TemplateContent,
    TemplateGroup,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.memory.blocks import BlockCreated
from libs.contracts.tools.tools import CreateTool
from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.agent_file_lines import agent_file_lines
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings
from services.api.v1.template_snapshots import GROUP_SETTINGS, creation_fields, template_block

# Types of groups that a template knows.
GROUP_TYPES = frozenset({"round_robin", "supervisor", "dynamic", "sleeptime", "voice_sleeptime"})


@dataclass(slots=True)
class FileContent:
    """The content of a template from a file, and the tools that have to be there first. Agents and
    blocks are the payloads of the events by which an import would make them."""

    tools: list[CreateTool] = field(default_factory=list)
    agents: list[JsonObject] = field(default_factory=list)
    blocks: dict[str, JsonObject] = field(default_factory=dict)
    groups: list[JsonObject] = field(default_factory=list)


def read_content(file: AgentFile, options: ImportOptions, present: PresentThings) -> FileContent:
    """The content of a template from a file. Raises AgentFileInvalid."""
    found = FileContent()
    for line in agent_file_lines(file, options, present):
        match line:
            case Definition(of="tool"):
                found.tools.append(CreateTool.model_validate(line.value))
            case Definition(of="group"):
                found.groups.append(line.value)
            case HistoryPart():
                note(line, found)
    return found


def note(line: HistoryPart, found: FileContent) -> None:
    """Keep how an agent or a block begins."""
    for event in line.history.events:
        if event.topic == AgentCreated.topic:
            found.agents.append(event.payload)
        elif event.topic == BlockCreated.topic:
            found.blocks[line.history.aggregate_id] = event.payload


def content_of_file(
    found: FileContent, file: AgentFile, tool_ids: Mapping[str, str]
) -> TemplateContent:
    """The content of a template from a file whose tools got these ids."""
    agents: list[dict[str, Any]] = [*found.agents]
    entities = {agent["config"]["id"]: f"agent-{n}" for n, agent in enumerate(agents, 1)}
    return TemplateContent(
        type=type_of(found, len(agents)),
        agents=[
            TemplateAgent(
                entity_id=entities[agent["config"]["id"]],
                name=agent["config"]["name"],
                fields=agent_fields(agent, tool_ids),
                tool_variables=dict.fromkeys(entry.variables),
            )
            for agent, entry in zip(agents, file.agents, strict=True)
        ],
        blocks=[block for block in blocks_of(found, agents, entities) if block.agents],
        group=group_of(found, entities),
    )


def agent_fields(agent: Mapping[str, Any], tool_ids: Mapping[str, str]) -> JsonObject:
    """The fields by which an agent of a file is created."""
    fields = creation_fields({**agent["config"], "tags": agent["tags"]})
    ids = [tool_ids.get(tool_id, tool_id) for tool_id in agent.get("tool_ids", [])]
    if ids:
        fields["tool_ids"] = [*ids]
    if not agent["config"].get("parallel_tool_calls", True):
        fields["parallel_tool_calls"] = False
    return fields


def blocks_of(
    found: FileContent, agents: list[dict[str, Any]], entities: Mapping[str, str]
) -> list[TemplateBlock]:
    """The blocks of a file, and which agents have each."""
    blocks: list[tuple[str, Any]] = [*found.blocks.items()]
    return [
        template_block(
            f"block-{number}",
            payload["block"],
            [entities[agent["config"]["id"]] for agent in agents if block_id in agent["block_ids"]],
        )
        for number, (block_id, payload) in enumerate(blocks, 1)
    ]


def type_of(found: FileContent, agents: int) -> Any:
    """The type of a template: that of the only group, if all agents are in it."""
    configs: list[Any] = [group["config"] for group in found.groups]
    if len(configs) == 1 and configs[0]["manager_type"] in GROUP_TYPES and agents > 1:
        members = {*configs[0]["agent_ids"], configs[0].get("manager_agent_id")} - {None}
        if len(members) == agents:
            return configs[0]["manager_type"]
    return "classic" if agents == 1 else "cluster"


def group_of(found: FileContent, entities: Mapping[str, str]) -> TemplateGroup | None:
    """The group of a file's agents, if they are one."""
    if type_of(found, len(entities)) in ("classic", "cluster"):
        return None
    config: Any = found.groups[0]["config"]
    manager = config.get("manager_agent_id")
    settings = {name: config[name] for name in GROUP_SETTINGS if config.get(name) is not None}
    return TemplateGroup(manager_entity_id=manager and entities[manager], settings=settings)
