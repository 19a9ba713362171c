"""What a server has of that which files speak of, read by few requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched
from typing import Any

from cli.fleet.desired import DesiredAgent, Json
from cli.fleet.mark import Mark, is_of
from cli.fleet.requests import Ref, Transport

BY_NAME_MAX = 20  # up to so many agents are asked for one by one, beyond that all are listed
NAMES_AT_ONCE = 100
SHOWN = ["agent.blocks", "agent.tools", "agent.tags", "agent.secrets", "agent.sources"]

type Document = Mapping[str, Json]


@dataclass
class ServerState:
    """What there is: agents, and the things that they use, by name."""

    agents: dict[str, Document] = field(default_factory=dict)  # by id
    tools: dict[str, Document] = field(default_factory=dict)
    default_model: str | None = None  # of agents whose files name none; where it was asked for
    mcp_servers: dict[str, Document] = field(default_factory=dict)
    mcp_tools: dict[str, dict[str, str]] = field(default_factory=dict)  # ids by server and name
    shared_blocks: dict[str, Document] = field(default_factory=dict)  # by label
    folders: dict[str, Document] = field(default_factory=dict)
    schedules: dict[str, list[Document]] = field(default_factory=dict)  # by the agent's id
    groups: dict[str, Document] = field(default_factory=dict)
    permissions: dict[str, Document] = field(default_factory=dict)  # by the agent's id

    def agents_named(self, name: str) -> list[Document]:
        """The agents of that name, the oldest first."""
        found = [agent for agent in self.agents.values() if agent["name"] == name]
        return sorted(found, key=lambda agent: (agent["created_at"], agent["id"]))

    def of_fleet(self, fleet: str) -> list[Document]:
        """The agents of a fleet, of several with one name the oldest."""
        ours = [agent for agent in self.agents.values() if is_of(fleet, agent)]
        ours.sort(key=lambda agent: (agent["created_at"], agent["id"]))
        return list({agent["name"]: agent for agent in reversed(ours)}.values())

    def ids(self) -> dict[Ref, str]:
        """The ids of what requests may name."""
        of_servers = {
            Ref("mcp_tool", f"{server}/{name}"): tool_id
            for server, tools in self.mcp_tools.items()
            for name, tool_id in tools.items()
        }
        return of_servers | {
            Ref(kind, name): str(document["id"])
            for kind, documents in (
                ("tool", self.tools),
                ("mcp_server", self.mcp_servers),
                ("shared_block", self.shared_blocks),
                ("folder", self.folders),
                ("group", self.groups),
            )
            for name, document in documents.items()
        }


@dataclass(frozen=True)
class Reader:
    """Reads the state of a server for a fleet."""

    transport: Transport
    fleet: str

    def read(self, desired: Sequence[DesiredAgent], *, everything: bool = False) -> ServerState:
        """The state as far as these agents need it; `everything`: all agents of the server."""
        state = ServerState()
        self._agents(state, [agent.name for agent in desired], everything)
        if any("model" not in agent.fields for agent in desired):
            models = self.transport.get("/v1/models/")
            state.default_model = models[0]["handle"] if models else None
        self._tools(state, desired)
        self._shared_blocks(state, desired)
        ours = [agent for agent in state.agents.values() if is_of(self.fleet, agent)]
        marks = [mark for agent in ours if (mark := Mark.of(agent))]
        self._mcp_servers(state, {server.name for a in desired for server in a.mcp_servers})
        self._folders(state, desired)
        if any(agent.schedules for agent in desired) or any(mark.schedules for mark in marks):
            self._schedules(state, desired)
        if any(agent.groups for agent in desired) or any(mark.groups for mark in marks):
            groups = self.transport.pages("/v1/agent-groups", show_hidden_groups=True)
            state.groups = {group["name"]: group for group in groups if group.get("name")}
        self._permissions(state, desired)
        return state

    def _agents(self, state: ServerState, names: Sequence[str], everything: bool) -> None:
        shown: dict[str, Any] = {"include": SHOWN, "show_hidden_agents": True}
        found: list[Document] = []
        if not everything and len(names) <= BY_NAME_MAX:
            for name in names:
                found.extend(self.transport.pages("/v1/agents/", name=name, **shown))
            everything = any(not any(a["name"] == name for a in found) for name in names)
        if everything or len(names) > BY_NAME_MAX:
            found = list(self.transport.pages("/v1/agents/", **shown))
        state.agents = {agent["id"]: agent for agent in found}

    def _tools(self, state: ServerState, desired: Iterable[DesiredAgent]) -> None:
        names = {
            name
            for agent in desired
            for name in [*agent.tools, *(tool.name for tool in agent.own_tools)]
        }
        for some in batched(sorted(names), NAMES_AT_ONCE):
            tools = self.transport.pages("/v1/tools/", names=list(some))
            state.tools |= {tool["name"]: tool for tool in tools}

    def _shared_blocks(self, state: ServerState, desired: Iterable[DesiredAgent]) -> None:
        labels = {block.label for agent in desired for block in agent.shared_blocks}
        if not labels:
            return
        tag = shared_block_tag(self.fleet)
        found = self.transport.pages("/v1/blocks/", tags=[tag])
        state.shared_blocks = {block["label"]: block for block in found}

    def _mcp_servers(self, state: ServerState, names: set[str]) -> None:
        if not names:
            return
        servers = self.transport.get("/v1/mcp-servers/")
        state.mcp_servers = {
            server["server_name"]: server for server in servers if server["server_name"] in names
        }
        for name, server in state.mcp_servers.items():
            tools = self.transport.get(f"/v1/mcp-servers/{server['id']}/tools")
            state.mcp_tools[name] = {tool["name"]: tool["id"] for tool in tools}

    def _folders(self, state: ServerState, desired: Iterable[DesiredAgent]) -> None:
        if any(agent.folders for agent in desired):
            folders = self.transport.pages("/v1/folders/")
            state.folders = {folder["name"]: folder for folder in folders}

    def _schedules(self, state: ServerState, desired: Sequence[DesiredAgent]) -> None:
        ids = [a["id"] for agent in desired for a in state.agents_named(agent.name)]
        if len(ids) <= BY_NAME_MAX:
            for agent_id in ids:
                state.schedules[agent_id] = list(
                    self.transport.pages("/v1/schedules", agent_id=agent_id)
                )
            return
        for schedule in self.transport.pages("/v1/schedules"):
            state.schedules.setdefault(schedule["agent_id"], []).append(schedule)

    def _permissions(self, state: ServerState, desired: Iterable[DesiredAgent]) -> None:
        for wanted in desired:
            for agent in state.agents_named(wanted.name):
                mark = Mark.of(agent)
                if wanted.permissions is not None or (mark and mark.permissions):
                    path = f"/v1/agents/{agent['id']}/permissions"
                    state.permissions[agent["id"]] = self.transport.get(path)


SHARED_BLOCK_TAG = "heeler.fleet:"


def shared_block_tag(fleet: str) -> str:
    """The tag of the blocks that agents of a fleet share, and of the tools that are its own."""
    return f"{SHARED_BLOCK_TAG}{fleet}"


def is_shared(block: Document) -> bool:
    """Whether agents of any fleet share a block."""
    return any(tag.startswith(SHARED_BLOCK_TAG) for tag in block.get("tags") or [])
