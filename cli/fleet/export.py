"""Agents of a server as files, with the sources of their tools beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.server_transport import Refusal, Transport
from libs.agent_document.desired import Json
from libs.agent_toml import AgentDefinition, NotWritable, from_server, write
from libs.agent_toml.tool_tables import Tool

LONG_TEXT_CHARACTERS = 4_000  # a longer prompt or value has a file of its own
SHOWN = ["agent.blocks", "agent.tools", "agent.tags", "agent.secrets", "agent.sources"]
EXTENSIONS = {"python": ".py", "typescript": ".ts"}

type Document = Mapping[str, Json]


@dataclass
class ExportedFiles:
    """Files by their paths from the folder that they are written to."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, text: str) -> str:
        """The path under which a text is kept: another one where a file has other content."""
        stem, dot, extension = path.rpartition(".")
        number = 1
        while self.texts.get(path, text) != text:
            number += 1
            path = f"{stem}-{number}{dot}{extension}"
        self.texts[path] = text
        return path

    def write_to(self, folder: Path) -> None:
        """Write them all. Raises CommandError where a file is there with other content."""
        for path, text in self.texts.items():
            file = folder / path
            if file.exists() and file.read_bytes() != text.encode():
                raise CommandError(
                    f"{file} is there with other content: write to another folder", ExitCode.REFUSED
                )
        for path, text in self.texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())


@dataclass
class Exporter:
    """Reads agents of a server as definitions."""

    transport: Transport
    groups: list[Document] | None = None
    servers: list[Document] | None = None

    def export(self, agent_id: str, files: ExportedFiles) -> str:
        """The path of the file of an agent; its tools are among the files then, too. Raises
        CommandError for an agent that no file can describe."""
        definition = self.definition_of(agent_id)
        name = slug(definition.name)
        definition = _with_own_files(definition, name, files)
        return files.add(f"{name}.toml", write(definition))

    def definition_of(self, agent_id: str) -> AgentDefinition:
        """An agent as a file says it."""
        agent = self.transport.get(f"/v1/agents/{agent_id}", include=SHOWN)
        blocks = agent.get("blocks") or []
        shared = set(self.transport.get(f"/v1/agents/{agent_id}/fleet")["shared_blocks"])
        try:
            return from_server(
                {**agent, "tools": [self._plain(tool) for tool in agent.get("tools") or []]},
                schedules=[*self.transport.pages("/v1/schedules", agent_id=agent_id)],
                groups=self._groups_of(agent_id),
                permissions=self.transport.get(f"/v1/agents/{agent_id}/permissions"),
                mcp_servers=self._servers_of(agent),
                shared_labels={block["label"] for block in blocks if block["id"] in shared},
            )
        except NotWritable as problem:
            raise CommandError(str(problem), ExitCode.REFUSED) from problem

    def _groups_of(self, agent_id: str) -> list[Document]:
        if self.groups is None:
            self.groups = [*self.transport.pages("/v1/agent-groups", show_hidden_groups=True)]
        return [
            group
            for group in self.groups
            if agent_id in group["agent_ids"] or group.get("manager_agent_id") == agent_id
        ]

    def _servers_of(self, agent: Document) -> list[Document]:
        tags = {tag for tool in agent.get("tools") or [] for tag in tool.get("tags") or []}
        if not any(tag.startswith("mcp:") for tag in tags):
            return []
        if self.servers is None:
            self.servers = self.transport.get("/v1/mcp-servers/")
        return [server for server in self.servers if f"mcp:{server['server_name']}" in tags]

    def _plain(self, tool: Document) -> Document:
        """A tool without a schema that follows from its source."""
        if tool.get("tool_type") != "custom" or tool.get("source_type") != "python":
            return tool
        plain = {**tool}
        body = {"code": tool.get("source_code") or ""}
        try:
            derived = self.transport.post("/v1/tools/generate-schema", body)
        except Refusal:
            return plain
        if derived == tool.get("json_schema"):
            plain["json_schema"] = None
            if derived.get("description") == tool.get("description"):
                plain["description"] = None
        return plain


def slug(name: str) -> str:
    """A name as a file is called."""
    return re.sub(r"[^\w-]+", "-", name.strip()).strip("-").lower() or "agent"


def _with_own_files(
    definition: AgentDefinition, name: str, files: ExportedFiles
) -> AgentDefinition:
    """The definition with sources of tools and long texts in files of their own."""
    changes: dict[str, object] = {"tool": [*_tools(definition.tool, files)]}
    if len(definition.system_prompt or "") > LONG_TEXT_CHARACTERS:
        path = files.add(f"{name}.prompt.md", definition.system_prompt or "")
        changes["system_prompt_file"] = path
    changes["memory"] = [
        block
        if len(block.value or "") <= LONG_TEXT_CHARACTERS
        else block.model_copy(
            update={"value_file": files.add(f"{name}.{slug(block.label)}.md", block.value or "")}
        )
        for block in definition.memory
    ]
    return definition.model_copy(update=changes)


def _tools(tools: Sequence[Tool], files: ExportedFiles) -> Iterator[Tool]:
    for tool in tools:
        extension = EXTENSIONS.get(tool.source_type or "python", ".py")
        path = files.add(f"tools/{tool.name}{extension}", tool.source or "")
        yield tool.model_copy(update={"file": path})
