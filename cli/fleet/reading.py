"""From a file's definition of an agent to what the API is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from libs.agent_document.desired import (
    Block,
    DesiredAgent,
    Json,
    McpServer,
    Membership,
    OwnTool,
    Schedule,
    without_blanks,
)
from libs.agent_toml.definition import AgentDefinition, MemoryBlock
from libs.agent_toml.requests import (
    block_request,
    mcp_server_request,
    schedule_request,
    to_update_request,
    tool_request,
)
from libs.agent_toml.schedule_tables import Schedule as ScheduleTable
from libs.agent_toml.tool_checks import tool_name
from libs.agent_toml.tool_tables import Tool

APPROVAL = "requires_approval"
# Of the body of an update these are elsewhere, and those count only where the file says them.
ELSEWHERE = frozenset({"name", "metadata", "tool_rules"})
ONLY_IF_SAID = frozenset({"description", "tags", "capabilities", "message_buffer_autoclear"})
BLOCK_FIELDS = ("limit", "description", "read_only")


def desired_agent(
    definition: AgentDefinition,
    file: str,
    environment: Mapping[str, str],
    *,
    warnings: Sequence[dict[str, Json]] = (),
) -> DesiredAgent:
    """A file's agent. Raises MissingVariable where a named variable is not set."""
    rules = [rule.model_dump(exclude_none=True) for rule in definition.tool_rules]
    approvals = {rule["tool_name"]: True for rule in rules if rule["type"] == APPROVAL}
    is_exact = definition.include_base_tool_rules is False
    for tool in definition.tool:
        approvals.setdefault(tool_name(tool), tool.requires_approval and not is_exact)
    creation: dict[str, Json] = {}
    if definition.include_base_tool_rules is not None:
        creation["include_base_tool_rules"] = definition.include_base_tool_rules
    permissions = definition.permissions
    return DesiredAgent(
        name=definition.name,
        key=definition.key or file,
        was=definition.was,
        file=file,
        warnings=[*warnings],
        fields=_fields(definition, environment),
        metadata=definition.metadata,
        creation=creation,
        rules=[without_blanks(rule) for rule in rules if rule["type"] != APPROVAL],
        exact_rules=is_exact,
        tools=definition.tools,
        exact_tools=not definition.include_base_tools,
        folders=definition.folders,
        own_tools=[_own_tool(tool) for tool in definition.tool],
        mcp_servers=[
            McpServer(
                name=server.name,
                config=mcp_server_request(server, environment)["config"],
                tools=server.tools,
            )
            for server in definition.mcp_servers
        ],
        blocks=[_block(block) for block in definition.memory],
        schedules=[_schedule(each, definition) for each in definition.schedules],
        groups=[*_memberships(definition)],
        approvals=approvals,
        permissions=None if permissions is None else permissions.model_dump(),
    )


def _fields(definition: AgentDefinition, environment: Mapping[str, str]) -> dict[str, Json]:
    said = definition.model_fields_set
    fields = {
        name: value
        for name, value in to_update_request(definition, environment).items()
        if name not in ELSEWHERE and (name in said or name not in ONLY_IF_SAID)
    }
    if "agent_type" in said:
        fields["agent_type"] = definition.agent_type
    return fields


def _own_tool(tool: Tool) -> OwnTool:
    body = tool_request(tool)
    source = body.pop("source_code")
    return OwnTool(name=tool_name(tool), source_code=source, fields=body)


def _block(block: MemoryBlock) -> Block:
    body = block_request(block)
    fields = {
        name: body[name] for name in BLOCK_FIELDS if name in block.model_fields_set and name in body
    }
    return Block(
        label=block.label,
        value=body["value"],
        metadata=block.metadata,
        shared=block.shared,
        **fields,
    )


def _schedule(schedule: ScheduleTable, definition: AgentDefinition) -> Schedule:
    body = schedule_request(schedule, definition.timezone)
    return Schedule(name=body.pop("name"), fields=body)


def _memberships(definition: AgentDefinition) -> Iterator[Membership]:
    for table in definition.groups:
        fields = table.model_dump(exclude_none=True, exclude={"name", "role"})
        yield Membership(group=table.name, role=table.role, fields=fields)
