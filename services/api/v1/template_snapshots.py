"""Contents of templates, as snapshots that clients read and write, and from the agents they are
made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BLOCK_FIELDS,
    GROUP_FIELDS,
    same_fields,
    same_values,
)
from libs.contracts.api.templates import (
    TemplateAgent,
    TemplateBlock,
    TemplateContent,
    TemplateGroup,
    variables_of,
)
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.template_requests import (
    SnapshotAgent,
    SnapshotBlock,
    SnapshotConfiguration,
    SnapshotProperties,
    SnapshotRelationship,
    SnapshotVariable,
    SnapshotVariables,
    TemplateSnapshot,
)

# Settings of a model by their names in a snapshot, and in its config.
MODEL_SETTINGS = {
    "enable_reasoner": "enable_reasoner",
    "put_inner_thoughts_in_kwargs": "put_inner_thoughts_in_kwargs",
    "context_window_limit": "context_window",
    "max_tokens": "max_tokens",
    "max_reasoning_tokens": "max_reasoning_tokens",
    "verbosity_level": "verbosity",
    "reasoning_effort": "reasoning_effort",
    "temperature": "temperature",
    "parallel_tool_calls": "parallel_tool_calls",
}
AGENT_SETTINGS = ("max_files_open", "message_buffer_autoclear", "per_file_view_window_char_limit")
# Of those, what a request to create an agent says itself, where there is no config of the model.
REQUEST_SETTINGS = (
    "context_window_limit",
    "max_tokens",
    "max_reasoning_tokens",
    "enable_reasoner",
    "parallel_tool_calls",
)
GROUP_SETTINGS = same_fields(GROUP_FIELDS, "template")


def content_of_agent(
    agent: Mapping[str, Any], secrets: Mapping[str, str | None]
) -> TemplateContent:
    """The content of a template from an agent, from its V1 document with all relationships;
    `secrets` are its variables with their sealed values."""
    fields = creation_fields(agent)
    for name, related in (("tool_ids", "tools"), ("folder_ids", "sources")):
        if agent[related]:
            fields[name] = [each["id"] for each in agent[related]]
    if agent["model_settings"].get("parallel_tool_calls") is False:  # else it is the default
        fields["parallel_tool_calls"] = False
    entity_id = "agent-1"
    return TemplateContent(
        agents=[
            TemplateAgent(
                entity_id=entity_id,
                name=agent["name"],
                fields=fields,
                tool_variables=dict(secrets),
            )
        ],
        blocks=[
            template_block(f"block-{number}", block, [entity_id])
            for number, block in enumerate(agent["blocks"], 1)
        ],
    )


def creation_fields(agent: Mapping[str, Any]) -> JsonObject:
    """The fields of a request to create such an agent, without what other commands attach."""
    names = (*same_fields(AGENT_FIELDS, "template", "create"), "identity_ids")
    return {name: agent[name] for name in names if agent.get(name) not in (None, [], {})}


def template_block(entity_id: str, block: Mapping[str, Any], agents: list[str]) -> TemplateBlock:
    """A block of a template, from its V1 document."""
    fields = same_values(BLOCK_FIELDS, block, "template")
    return TemplateBlock(**fields, entity_id=entity_id, agents=agents)


def snapshot_of(content: TemplateContent, version: str) -> JsonObject:
    """A version of a template as clients read it. Values of secrets are not shown."""
    snapshot = TemplateSnapshot(
        agents=[snapshot_agent(content, agent) for agent in content.agents],
        blocks=[
            SnapshotBlock.model_validate(
                block.model_dump(exclude={"metadata", "tags", "hidden", "agents"})
                | {"description": block.description or ""}
            )
            for block in content.blocks
        ],
        relationships=[
            SnapshotRelationship(agent_entity_id=agent, block_entity_id=block.entity_id)
            for block in content.blocks
            for agent in block.agents
        ],
        configuration=configuration_of(content),
        type=content.type,
        version=version,
    )
    shown: JsonObject = snapshot.model_dump(mode="json", by_alias=True)
    shown["configuration"] = snapshot.configuration.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return shown


def snapshot_agent(content: TemplateContent, agent: TemplateAgent) -> SnapshotAgent:
    """An agent of a template as clients read it."""
    fields: dict[str, Any] = dict(agent.fields)
    config: dict[str, Any] = fields.get("llm_config") or {}
    values = [block.value for block in content.blocks if agent.entity_id in block.agents]
    memory = dict.fromkeys(name for value in values for name in variables_of(value))
    settings = {name: config.get(known, fields.get(name)) for name, known in MODEL_SETTINGS.items()}
    settings |= {name: fields.get(name) for name in AGENT_SETTINGS}
    settings["parallel_tool_calls"] = fields.get("parallel_tool_calls")
    return SnapshotAgent.model_validate(
        {
            "model": fields.get("model") or config.get("handle") or config.get("model") or "",
            "system_prompt": fields.get("system") or "",
            "tool_ids": fields.get("tool_ids", []),
            "source_ids": fields.get("folder_ids", []),
            "memory_variables": variables(memory),
            "tool_variables": variables(agent.tool_variables),
            "tags": fields.get("tags", []),
            "identity_ids": fields.get("identity_ids", []),
            "tool_rules": fields.get("tool_rules", []),
            "agent_type": fields.get("agent_type", "letta_v1_agent"),
            "properties": SnapshotProperties.model_validate(settings),
            "entity_id": agent.entity_id,
            "name": agent.name,
        }
    )


def variables(names: Mapping[str, object]) -> SnapshotVariables:
    """Variables as clients read them, without values."""
    return SnapshotVariables(data=[SnapshotVariable(key=name) for name in names])


def configuration_of(content: TemplateContent) -> SnapshotConfiguration:
    """The group settings of the agents, as clients read them."""
    group = content.group
    if group is None:
        return SnapshotConfiguration()
    settings = {name: group.settings.get(name) for name in GROUP_SETTINGS}
    manager = {"manager_agent_entity_id": group.manager_entity_id, "manager_type": content.type}
    return SnapshotConfiguration.model_validate(settings | manager)


def content_of_snapshot(
    snapshot: TemplateSnapshot, before: TemplateContent, seal: Callable[[str], str]
) -> TemplateContent:
    """The content of a template after a client wrote a snapshot. Fields that a snapshot leaves out,
    such as the embedding of an agent or the values of its secrets, stay as they were."""
    known = {agent.entity_id: agent for agent in before.agents}
    blocks = {block.entity_id: block for block in before.blocks}
    related: dict[str, list[str]] = {}
    for pair in snapshot.relationships:
        related.setdefault(pair.block_entity_id, []).append(pair.agent_entity_id)
    return TemplateContent(
        type=snapshot.type,
        agents=[
            agent_of_snapshot(agent, known.get(agent.entity_id), seal) for agent in snapshot.agents
        ],
        blocks=[
            block_of_snapshot(block, blocks.get(block.entity_id), related)
            for block in snapshot.blocks
        ],
        group=group_of_snapshot(snapshot),
    )


def agent_of_snapshot(
    agent: SnapshotAgent, before: TemplateAgent | None, seal: Callable[[str], str]
) -> TemplateAgent:
    """An agent of a template as a client wrote it."""
    fields: dict[str, Any] = dict(before.fields) if before else {}
    written = agent.model_dump(mode="json")
    for name, known in (("system_prompt", "system"), ("source_ids", "folder_ids")):
        written[known] = written.pop(name)
    for name in ("system", "tool_ids", "folder_ids", "tags", "identity_ids", "tool_rules"):
        fields[name] = written[name]
    fields["agent_type"] = written["agent_type"]
    settings = agent.properties.model_dump(exclude_none=True) if agent.properties else {}
    fields |= {name: settings[name] for name in AGENT_SETTINGS if name in settings}
    set_model(fields, agent.model, settings)
    secrets = agent.tool_variables.data if agent.tool_variables else []
    kept = before.tool_variables if before else {}
    return TemplateAgent(
        entity_id=agent.entity_id,
        name=agent.name,
        fields={name: value for name, value in fields.items() if value not in (None, [], {})},
        tool_variables={
            variable.key: seal(variable.default_value)
            if variable.default_value
            else kept.get(variable.key)
            for variable in secrets
        },
    )


def set_model(fields: dict[str, Any], handle: str, settings: Mapping[str, Json]) -> None:
    """Have an agent use a model with these settings. The config of another model is given up: that
    of the catalogue counts."""
    config = fields.get("llm_config")
    if config and handle in (config.get("handle"), config.get("model")):
        changes = {
            known: settings[name] for name, known in MODEL_SETTINGS.items() if name in settings
        }
        fields["llm_config"] = {**config, **changes}
        return
    fields.pop("llm_config", None)
    fields.pop("compaction_settings", None)
    fields["model"] = handle
    fields |= {name: settings[name] for name in REQUEST_SETTINGS if name in settings}


def block_of_snapshot(
    block: SnapshotBlock, before: TemplateBlock | None, related: Mapping[str, list[str]]
) -> TemplateBlock:
    """A block of a template as a client wrote it."""
    kept = before.model_dump(include={"metadata", "tags", "hidden"}) if before else {}
    return TemplateBlock.model_validate(
        {
            **kept,
            **block.model_dump(exclude={"preserve_on_migration"}),
            "description": block.description or None,
            "preserve_on_migration": bool(block.preserve_on_migration),
            "agents": related.get(block.entity_id, []),
        }
    )


def group_of_snapshot(snapshot: TemplateSnapshot) -> TemplateGroup | None:
    """The group settings of the agents, as a client wrote them."""
    if snapshot.type in ("classic", "cluster"):
        return None
    settings = snapshot.configuration.model_dump(include=set(GROUP_SETTINGS), exclude_none=True)
    manager = snapshot.configuration.manager_agent_entity_id
    return TemplateGroup(manager_entity_id=manager, settings=settings)
