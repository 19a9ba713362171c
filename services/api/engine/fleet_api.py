"""Reader of the things that files speak of, by few requests to the server's own API. The rest of
what plans need is imported with the first plan: most servers have no fleet."""

from __future__ import annotations

from itertools import batched
from typing import Any, Protocol

from libs.agent_document.desired import Json
from libs.agent_document.plan_parts import Document, FleetState, Wanted
from libs.agent_document.requests import Ref
from services.api.adapters.agents.fleet_queries import FleetQueries

NAMES_AT_ONCE = 100
GONE = 404
SHOWN = ["agent.blocks", "agent.tools", "agent.tags", "agent.secrets", "agent.sources"]


class Refused(Exception):
    """The API refused a request; the words say why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ApiAway(Exception):
    """The API could not answer a request just now."""


class FleetApi(Protocol):
    """The API as a client of an organisation. Its methods raise Refused and ApiAway."""

    async def get(self, path: str, **query: Any) -> Json:
        """The document at a path."""

    async def send(self, method: str, path: str, body: Json, key: str | None) -> Json:
        """The answer to a request, with an Idempotency-Key if there is one."""

    async def pages(self, path: str, **query: Any) -> list[Json]:
        """All entries of a list that has cursors."""


async def document_at(api: FleetApi, path: str, **query: Any) -> Json:
    """The document at a path; None where it is gone. Raises Refused and ApiAway."""
    try:
        return await api.get(path, **query)
    except Refused as refused:
        if refused.status != GONE:
            raise
        return None


async def read_state(
    api: FleetApi,
    queries: FleetQueries,
    org: str,
    fleet_id: str,
    wanted: Wanted,
) -> FleetState:
    """The state of the server as far as a plan needs it. Raises Refused and ApiAway."""
    members = await queries.members(org, fleet_id)
    state = FleetState(fleet_id=fleet_id, members=members)
    await _Reader(api, state, wanted).read()
    owned = [
        *state.agents,
        *(str(each["id"]) for agent in state.agents.values() for each in agent.get("blocks") or []),
        *(str(each["id"]) for each in state.tools.values()),
        *(str(each["id"]) for each in state.mcp_servers.values()),
        *(str(each["id"]) for each in state.groups.values()),
        *(member.id for member in members),
    ]
    state.owners, state.shared_ids = await queries.owners(org, [*dict.fromkeys(owned)])
    return state


def ids_of(state: FleetState) -> dict[Ref, str]:
    """The ids of what requests may name, and is there."""
    of_servers = {
        Ref(kind="mcp_tool", name=f"{server}/{name}"): tool_id
        for server, tools in state.mcp_tools.items()
        for name, tool_id in tools.items()
    }
    tables = {
        "tool": state.tools,
        "mcp_server": state.mcp_servers,
        "shared_block": state.shared_blocks,
        "folder": state.folders,
        "group": state.groups,
    }
    return of_servers | {
        Ref(kind=kind, name=name): str(document["id"])
        for kind, documents in tables.items()
        for name, document in documents.items()
    }


class _Reader:
    def __init__(self, api: FleetApi, state: FleetState, wanted: Wanted) -> None:
        self.api = api
        self.state = state
        # Where files have moved, or agents go, the plan may be about any.
        self.wanted = wanted
        self.desired = wanted.agents

    async def read(self) -> None:
        state, desired = self.state, self.desired
        await self.agents()
        if any("model" not in agent.fields for agent in desired):
            models = await self.api.get("/v1/models/")
            state.default_model = models[0]["handle"] if models else None
        await self.tools()
        await self.shared_blocks()
        await self.mcp_servers({server.name for each in desired for server in each.mcp_servers})
        if any(agent.folders for agent in desired):
            folders = await self.api.pages("/v1/folders/")
            state.folders = {folder["name"]: folder for folder in folders}
        for agent_id in self.ids_with("schedules"):
            schedules = await self.api.pages("/v1/schedules", agent_id=agent_id)
            state.schedules[agent_id] = schedules
        for agent_id in self.ids_with("permissions"):
            path = f"/v1/agents/{agent_id}/permissions"
            state.permissions[agent_id] = await self.api.get(path)
        before = [member.applied for member in state.members]
        if any(agent.groups for agent in desired) or any(each.groups for each in before):
            groups = await self.api.pages("/v1/agent-groups", show_hidden_groups=True)
            named = [group for group in groups if group.get("name")]
            ours = {each.id for each in state.members if each.kind == "group"}
            named.sort(key=lambda group: group["id"] in ours)
            state.groups = {group["name"]: group for group in named}

    def ids_with(self, part: str) -> list[str]:
        """The agents whose files say something of a part, or said it before."""
        ids = {member.id for member in self.state.members if getattr(member.applied, part)}
        for agent in self.desired:
            if getattr(agent, part) not in (None, []):
                ids |= {str(each["id"]) for each in self.state.by_name.get(agent.name, ())}
        return [agent_id for agent_id in self.state.agents if agent_id in ids]

    async def agents(self) -> None:
        """The agents that files are about, and where agents are pruned the others of the fleet;
        and those that others have made under a name that is new to the fleet."""
        from libs.agent_document.plan import matching_members

        matched = matching_members(self.wanted, self.state)
        about = {member.id for member in matched.values()}
        for member in self.state.members:
            if member.kind == "agent" and (self.wanted.prune or member.id in about):
                path = f"/v1/agents/{member.id}"
                self.keep(await document_at(self.api, path, include=SHOWN))
        shown = {"include": SHOWN, "show_hidden_agents": True}
        for name in {agent.name for agent in self.desired if agent.key not in matched}:
            for agent in await self.api.pages("/v1/agents/", name=name, **shown):
                self.keep(agent)

    def keep(self, agent: Document | None) -> None:
        if agent is not None:
            self.state.agents[str(agent["id"])] = agent

    async def tools(self) -> None:
        names = {
            name
            for agent in self.desired
            for name in [*agent.tools, *(tool.name for tool in agent.own_tools)]
        }
        for some in batched(sorted(names), NAMES_AT_ONCE):
            tools = await self.api.pages("/v1/tools/", names=list(some))
            self.state.tools |= {tool["name"]: tool for tool in tools}

    async def shared_blocks(self) -> None:
        labels = {block.label for agent in self.desired for block in agent.shared_blocks}
        for member in self.state.members:
            if member.kind == "shared_block" and member.key in labels:
                block = await document_at(self.api, f"/v1/blocks/{member.id}")
                if block is not None:
                    self.state.shared_blocks[member.key] = block

    async def mcp_servers(self, names: set[str]) -> None:
        if not names:
            return
        servers = await self.api.get("/v1/mcp-servers/")
        state = self.state
        state.mcp_servers = {
            server["server_name"]: server for server in servers if server["server_name"] in names
        }
        for name, server in state.mcp_servers.items():
            tools = await self.api.get(f"/v1/mcp-servers/{server['id']}/tools")
            state.mcp_tools[name] = {tool["name"]: tool["id"] for tool in tools}
