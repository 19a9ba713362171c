"""Definitions of the things that a file's agents use: tools, folders, MCP servers and groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from libs.agent_document.agent_fields import FOLDER_FIELDS, TOOL_FIELDS, same_fields
from libs.contracts.agent_file import Definition
from libs.contracts.bus_messages import JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.state_size_limits import oversize_tool
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.entry_models import GroupEntry, McpServerEntry, ToolEntry
from services.api.v1.agent_file.entry_problems import LeftOut, Path, entry_name
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings

# What a tool of the same name that is there already gets, where it is to be overridden.
OVERRIDDEN_FIELDS = [
    name
    for name in same_fields(TOOL_FIELDS, "agent_file")
    if name not in ("name", "tool_type", "default_requires_approval")
]
AGENT_STATE = "agent_state"
ADDED_ARGUMENTS = (AGENT_STATE, "request_heartbeat")
FROM_SERVERS = {"external_mcp", "external_composio", "external_langchain"}


@dataclass(frozen=True, slots=True)
class TakenTool:
    """The tool that an entry of the file stands for here. One that is `unaccepted` is called only
    after an approval."""

    id: str
    name: str
    unaccepted: bool = False


@dataclass(slots=True)
class Ids:
    """The ids of the file's things here."""

    import_id: str
    file: AgentFile
    tools: dict[str, TakenTool] = field(default_factory=dict)

    def own(self, kind: str, name: str) -> str:
        """The id of an entry of the file."""
        return derived_id(kind, self.import_id, name)

    def agent(self, name: str) -> str:
        """The id of an agent of the file."""
        return self.own("agent", name)

    def users(self, field_name: str, name: str) -> tuple[str, ...]:
        """The agents of the file that have an entry among those of a field."""
        having = (agent for agent in self.file.agents if name in getattr(agent, field_name))
        return tuple(self.agent(agent.id) for agent in having)


class DefinitionLines:
    """Makes the definitions of one file, and notes what is left out."""

    def __init__(
        self, ids: Ids, options: ImportOptions, present: PresentThings, left_out: list[LeftOut]
    ) -> None:
        self.ids = ids
        self.file = ids.file
        self.options = options
        self.present = present
        self.left_out = left_out

    def leave_out(self, path: Path, why: str) -> None:
        """Note that an entry is not taken over, or not as it is there."""
        self.left_out.append(LeftOut(entry_name(path), why))

    def tools(self) -> Iterator[Definition]:
        """The tools that the file defines. Afterwards `ids.tools` says which tool each entry stands
        for; it has none for what was left out."""
        by_name: dict[str, TakenTool] = {}
        for index, entry in enumerate(self.file.tools):
            path = self.file.place("tools", index)
            if entry.name in by_name:
                self.leave_out(path, f"'{entry.name}' stands there twice: the first one is used")
                self.ids.tools[entry.id] = by_name[entry.name]
                continue
            taken, definition = self.tool(path, entry)
            if taken is not None:
                self.ids.tools[entry.id] = by_name[entry.name] = taken
            if definition is not None:
                yield definition

    def tool(self, path: Path, entry: ToolEntry) -> tuple[TakenTool | None, Definition | None]:
        """Which tool an entry stands for, and its definition if it is one of the file's own."""
        if entry.name in SERVER_TOOLS:
            # Whatever the file says of it: nobody redefines a tool of the server.
            if entry.tool_type == ToolType.custom.value:
                self.leave_out(path, f"'{entry.name}' comes with the server: that one is used")
            return TakenTool(SERVER_TOOLS[entry.name].id, entry.name), None
        there = self.tool_there(entry)
        if entry.tool_type != ToolType.custom.value:
            if there is None:
                self.leave_out(path, missing_tool(entry))
            return (TakenTool(there, entry.name) if there else None), None
        overrides = self.options.override_existing_tools and self.options.tools_accepted
        if there is not None and not overrides:
            if self.present.tool_sources.get(entry.name) != entry.source_code:
                self.leave_out(
                    path,
                    f"there is another tool called '{entry.name}': it is used; to give it the code"
                    " of the file, import with `accept_tools` and `override_existing_tools`",
                )
            return TakenTool(there, entry.name), None
        return self.own_tool(path, entry, there)

    def tool_there(self, entry: ToolEntry) -> str | None:
        """The id of a tool of that name that was there before this import."""
        there = self.present.tools.get(entry.name)
        return None if there == self.ids.own("tool", entry.id) else there

    def own_tool(
        self, path: Path, entry: ToolEntry, there: str | None
    ) -> tuple[TakenTool | None, Definition | None]:
        """A tool that the file defines: a new one, or other code for one that is there."""
        if not entry.source_code:
            self.leave_out(path, f"'{entry.name}' has no `source_code`, so nothing could run it")
            return None, None
        tool = ToolState(
            id=there or self.ids.own("tool", entry.id),
            default_requires_approval=(
                entry.default_requires_approval if self.options.tools_accepted else True
            ),
            **{name: getattr(entry, name) for name in ("name", *OVERRIDDEN_FIELDS)},
        )
        tool = tool.model_copy(update={"json_schema": without_added_arguments(entry)})
        fields: JsonObject = tool.model_dump(mode="json")
        problem = oversize_tool(fields)
        if problem:
            self.leave_out(path, problem)
            return None, None
        given = [*OVERRIDDEN_FIELDS] if there else []
        if there and tool.default_requires_approval is not None:
            given.append("default_requires_approval")
        definition = Definition(
            of="tool",
            id=tool.id,
            value={"tool": fields, "given": [*given]},
            attached_to=self.ids.users("tool_ids", entry.id),
            entry=entry_name(path),
        )
        taken = TakenTool(tool.id, tool.name, unaccepted=not self.options.tools_accepted)
        return taken, definition

    def mcp_servers(self) -> Iterator[Definition]:
        """The MCP servers of the file, if the request accepts them."""
        for index, entry in enumerate(self.file.mcp_servers):
            path = self.file.place("mcp_servers", index)
            if not self.options.tools_accepted:
                self.leave_out(
                    path,
                    f"'{entry.server_name}': a file may start no command and open no connection:"
                    " add the server by POST /v1/mcp-servers, or import with `accept_tools`",
                )
            else:
                yield Definition(
                    of="mcp_server",
                    id=self.ids.own("mcp_server", entry.id),
                    value=mcp_server_fields(entry),
                    entry=entry_name(path),
                )

    def folders(self) -> Iterator[Definition]:
        """The folders of the file. One whose name is taken gets the id of the import behind it."""
        names = set(self.present.folder_names)
        kept = {*same_fields(FOLDER_FIELDS, "agent_file"), "embedding_chunk_size"}
        for index, entry in enumerate(self.file.sources):
            name = entry.name
            if name in names:
                name = f"{name}_{self.ids.own('source', entry.id)[-8:]}"
                self.leave_out(
                    self.file.place("sources", index),
                    f"there is a folder called '{entry.name}' already: this one is '{name}'",
                )
            names.add(name)
            yield Definition(
                of="folder",
                id=self.ids.own("source", entry.id),
                value={**entry.model_dump(mode="json", include=kept), "name": name},
                attached_to=self.users_of_folder(entry.id),
                entry=entry_name(self.file.place("sources", index)),
            )

    def users_of_folder(self, name: str) -> tuple[str, ...]:
        """The agents that see a folder, or a file in it."""
        return tuple(
            self.ids.agent(agent.id)
            for agent in self.file.agents
            if name in {*agent.source_ids, *agent.folder_ids}
            or any(opened.source_id == name for opened in agent.files_agents)
        )

    def groups(self) -> Iterator[Definition]:
        """The groups of the file; their agents have to be there first."""
        for index, entry in enumerate(self.file.groups):
            yield Definition(
                of="group",
                id=self.ids.own("group", entry.id),
                value={"config": self.group_config(entry).model_dump(mode="json")},
                attached_to=tuple(self.ids.agent(name) for name in entry.agent_ids),
                entry=entry_name(self.file.place("groups", index)),
            )

    def group_config(self, entry: GroupEntry) -> GroupConfig:
        """The configuration of a group of the file."""
        manager = entry.manager_config.model_dump()
        manager_agent = manager.pop("manager_agent_id")
        return GroupConfig(
            description=entry.description,
            agent_ids=[self.ids.agent(name) for name in entry.agent_ids],
            manager_agent_id=None if manager_agent is None else self.ids.agent(manager_agent),
            shared_block_ids=[self.ids.own("block", name) for name in entry.shared_block_ids],
            hidden=entry.hidden,
            project_id=self.options.project_id,
            **manager,
        )


def without_added_arguments(entry: ToolEntry) -> JsonObject | None:
    """The schema of a tool without the arguments that the retired server had added to it: models
    are not asked for them, and its function does not take the heartbeat."""
    schema = entry.json_schema
    parameters = schema.get("parameters") if schema else None
    if schema is None or not isinstance(parameters, dict):
        return schema
    source = entry.source_code or ""
    added = {name for name in ADDED_ARGUMENTS if name == AGENT_STATE or name not in source}
    properties, required = parameters.get("properties"), parameters.get("required")
    kept: JsonObject = dict(parameters)
    if isinstance(properties, dict):
        kept["properties"] = {name: properties[name] for name in properties if name not in added}
    if isinstance(required, list):
        kept["required"] = [name for name in required if name not in added]
    return {**schema, "parameters": kept}


def missing_tool(entry: ToolEntry) -> str:
    """Why a tool that somebody else defines is left out."""
    if entry.tool_type in FROM_SERVERS:
        return (
            f"'{entry.name}' is the tool of a server that is not here: add its MCP server, then"
            " attach the tool to the agent"
        )
    return f"'{entry.name}' came with the server that wrote the file, and not with this one"


def mcp_server_fields(entry: McpServerEntry) -> JsonObject:
    """The fields of the command that adds an MCP server; its secrets were never in the file."""
    config: JsonObject = {"transport": entry.server_type}
    if entry.server_type == "stdio":
        stdio = entry.stdio_config
        config["command"] = stdio.command if stdio else ""
        config["args"] = [*(stdio.args or [])] if stdio else []
    else:
        config["url"] = entry.server_url or ""
    return {"name": entry.server_name, "config": config}
