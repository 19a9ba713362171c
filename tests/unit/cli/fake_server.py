"""A server in memory with the routes that fleets use, whose connection can break."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.server_transport import Refusal

BASE_TOOLS = ("memory_insert", "memory_replace")
SERVER_TOOLS = (*BASE_TOOLS, "web_search")
MODELS = ("openai/gpt-4.1", "openai/gpt-4.1-mini")


class ConnectionLost(CommandError):
    """The server cannot be reached any more."""

    def __init__(self) -> None:
        super().__init__("No server answers", ExitCode.UNREACHABLE)


@dataclass
class FakeServer:
    """Agents and what belongs to them. Fails like a lost connection from the request on whose
    number is `lost_from`; with `answer_lost` that request was carried out."""

    lost_from: int | None = None
    answer_lost: bool = False
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    permissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: dict[str, dict[str, Any]] = field(default_factory=dict)
    configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    gets: int = 0
    is_down: bool = False

    def __post_init__(self) -> None:
        self.numbers = count(1)
        for name in SERVER_TOOLS:
            self._keep(self.tools, "tool", {"name": name, "tool_type": "letta_core", "tags": []})

    # What the tests look at

    def agent(self, name: str) -> dict[str, Any]:
        """The only agent of that name, as clients read it."""
        (found,) = [self._shown(agent) for agent in self.agents.values() if agent["name"] == name]
        return found

    def block(self, agent: str, label: str) -> dict[str, Any]:
        """The block of an agent with that label."""
        (found,) = [block for block in self.agent(agent)["blocks"] if block["label"] == label]
        return found

    def names(self) -> list[str]:
        """The names of all agents, sorted."""
        return sorted(agent["name"] for agent in self.agents.values())

    def content(self) -> Any:
        """Everything but ids, for comparing two servers."""
        names = {tool["id"]: tool["name"] for tool in self.tools.values()}
        labels = {block["id"]: block["label"] for block in self.blocks.values()}
        agents = {agent["id"]: agent["name"] for agent in self.agents.values()}
        return {
            "agents": sorted(
                (
                    {
                        **{k: v for k, v in agent.items() if k not in ("id", "created_at")},
                        "tool_ids": sorted(names[tool] for tool in agent["tool_ids"]),
                        "block_ids": sorted(
                            (labels[block], self.blocks[block]["value"])
                            for block in agent["block_ids"]
                        ),
                        "configuration": self.configurations.get(agent["id"]),
                        "permissions": self.permissions.get(agent["id"]),
                    }
                    for agent in self.agents.values()
                ),
                key=lambda agent: agent["name"],
            ),
            "blocks": sorted((b["label"], b["value"]) for b in self.blocks.values()),
            "tools": sorted((t["name"], t.get("source_code", "")) for t in self.tools.values()),
            "schedules": sorted(
                (agents[s["agent_id"]], s["name"], s["recurrence_rule"])
                for s in self.schedules.values()
            ),
            "groups": sorted(
                (g["name"], sorted(agents[member] for member in g["agent_ids"]))
                for g in self.groups.values()
            ),
        }

    # The transport

    def _count_get(self) -> None:
        self.gets += 1
        if self.is_down:
            raise ConnectionLost

    def get(self, path: str, **query: Any) -> Any:
        self._count_get()
        match path.strip("/").split("/")[1:]:
            case ["mcp-servers"]:
                return copy.deepcopy([*self.servers.values()])
            case ["mcp-servers", server_id, "tools"]:
                tag = f"mcp:{self.servers[server_id]['server_name']}"
                return [tool for tool in self.tools.values() if tag in tool["tags"]]
            case ["mcp-servers", server_id]:
                return copy.deepcopy(self._found(self.servers, server_id))
            case ["tools", tool_id]:
                return copy.deepcopy(self._found(self.tools, tool_id))
            case ["models"]:
                shown = MODELS if "provider_name" not in query else ()
                return [{"handle": handle, "max_context_window": 32_000} for handle in shown]
            case ["models", "embedding"]:
                return []
            case ["permissions", "tools"]:
                return {"tools": None, "capabilities": None}
            case ["agents", agent_id]:
                return self._shown(self._found(self.agents, agent_id))
            case ["agents", agent_id, "events"]:
                return self._events(agent_id, **query)
            case ["blocks", block_id]:
                return copy.deepcopy(self._found(self.blocks, block_id))
            case ["tools", tool_id]:
                return copy.deepcopy(self._found(self.tools, tool_id))
            case ["agent-groups", group_id]:
                return copy.deepcopy(self._found(self.groups, group_id))
            case ["agents", agent_id, "permissions"]:
                none = {"tools": None, "capabilities": None}
                return dict(self.permissions.get(agent_id, none))
            case _:
                raise AssertionError(path)

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        self._count_get()
        kind = path.strip("/").split("/")[-1]
        for document in [*self._table(kind).values()]:
            if "name" in query and document["name"] != query["name"]:
                continue
            if "names" in query and document["name"] not in query["names"]:
                continue
            if "tags" in query and not set(query["tags"]) & set(document.get("tags") or []):
                continue
            if "agent_id" in query and document["agent_id"] != query["agent_id"]:
                continue
            yield self._shown(document) if kind == "agents" else copy.deepcopy(document)

    def send(self, method: str, path: str, body: Any, key: str | None) -> Any:
        number = len(self.sent) + 1
        is_lost = self.lost_from is not None and number >= self.lost_from
        if is_lost and not (self.answer_lost and number == self.lost_from):
            raise ConnectionLost
        self.sent.append((method, path, copy.deepcopy(body)))
        answer = self._act(method, path.strip("/").split("/")[1:], copy.deepcopy(body), key)
        if is_lost:
            raise ConnectionLost
        return answer

    # What requests do

    def _act(self, method: str, path: list[str], body: Any, key: str | None) -> Any:
        match method, path:
            case "POST", ["agents"]:
                return self._once(key, "agent", self.agents, lambda: self._new_agent(body))
            case "PATCH", ["agents", agent_id]:
                return self._change_agent(agent_id, body)
            case "POST", ["agents", agent_id, "fork"]:
                return self._once(key, "agent", self.agents, lambda: self._fork(agent_id, body))
            case "DELETE", ["agents", agent_id]:
                agent = self._found(self.agents, agent_id)
                self.deleted[agent_id] = self._shown(agent)
                for block_id in agent["block_ids"]:
                    if not self.blocks[block_id]["tags"]:
                        del self.blocks[block_id]
                del self.agents[agent_id]
                return None
            case "PUT", ["agents", agent_id, "permissions"]:
                self.permissions[agent_id] = body
                return body
            case "PUT", ["agents", agent_id, "configuration"]:
                self.configurations[agent_id] = body
                return body
            case "PATCH", ["agents", agent_id, "tools", "approval", tool]:
                return self._approve(agent_id, tool, body["requires_approval"])
            case "PATCH", ["agents", agent_id, "core-memory", "blocks", verb, block_id]:
                return self._attach(agent_id, verb, block_id)
            case _, ["agents", agent_id, "schedule", *rest]:
                return self._schedule(method, agent_id, rest, body, key)
            case "POST", ["blocks"]:
                return self._once(key, "block", self.blocks, lambda: self._new_block(body))
            case "PATCH", ["blocks", block_id]:
                self._found(self.blocks, block_id).update(body)
                return self.blocks[block_id]
            case "PUT", ["tools"]:
                return self._put_tool(body)
            case _, ["mcp-servers", *rest]:
                return self._mcp(method, rest, body, key)
            case _, ["agent-groups", *rest]:
                return self._group(method, rest, body, key)
        raise AssertionError((method, path))

    def _table(self, kind: str) -> dict[str, dict[str, Any]]:
        return {
            "agents": self.agents,
            "blocks": self.blocks,
            "tools": self.tools,
            "schedules": self.schedules,
            "agent-groups": self.groups,
            "folders": {},
        }[kind]

    def _keep(self, table: dict[str, Any], prefix: str, document: Any) -> Any:
        number = next(self.numbers)
        document = {"id": f"{prefix}-{number}", "created_at": f"{number:06}", **document}
        table[document["id"]] = document
        return document

    def _once(self, key: str | None, prefix: str, table: dict[str, Any], make: Any) -> Any:
        if key is not None and key in self.keys:
            return self._found(table, self.keys[key])
        made = make()
        if key is not None:
            self.keys[key] = made["id"]
        return made

    def _found(self, table: dict[str, Any], wanted: str) -> Any:
        if wanted not in table:
            raise Refusal(404, f"There is no {wanted}")
        return table[wanted]

    def _new_agent(self, body: Any) -> Any:
        self._check_model(body)
        tools = list(body.pop("tools", []))
        tools += [*BASE_TOOLS] if body.pop("include_base_tools", True) else []
        ids = [self._tool_named(name) for name in dict.fromkeys(tools)] + body.pop("tool_ids", [])
        blocks = [self._new_block(block)["id"] for block in body.pop("memory_blocks", [])]
        made = {
            "description": None,
            "tags": [],
            "timezone": "UTC",
            "tool_rules": [],
            "capabilities": [],
            "model": "openai/gpt-4.1",
            "metadata": {},
            **body,
            "block_ids": blocks + body.pop("block_ids", []),
            "tool_ids": ids,
        }
        made["tool_rules"] = [*made["tool_rules"], *self._approval_rules(ids)]
        return self._keep(self.agents, "agent", made)

    def _events(self, agent_id: str, topic: str = "", after: str = "", **_: Any) -> list[Any]:
        """What happened to an agent, the newest first."""
        ends = ["block.deleted", "agent.deleted"] if agent_id in self.deleted else []
        topics = [*ends, "agent.created"]
        events = [
            {"id": f"{agent_id}.{len(topics) - number}", "topic": each}
            for number, each in enumerate(topics)
        ]
        seen = [event["id"] for event in events].index(after) + 1 if after else 0
        return [event for event in events[seen:] if topic in ("", event["topic"])]

    def _fork(self, agent_id: str, body: Any) -> Any:
        """An agent that was deleted, as it was, with blocks of its own."""
        if body["at"] != f"{agent_id}.1":
            raise Refusal(422, "it was deleted then")
        agent = copy.deepcopy(self.deleted[agent_id])
        blocks = agent.pop("blocks")
        for derived in ("tools", "sources", "llm_config", "id", "created_at"):
            agent.pop(derived)
        agent["secrets"] = {each["key"]: each["value"] for each in agent["secrets"]}
        made = [self._new_block({k: v for k, v in b.items() if k != "id"}) for b in blocks]
        return self._keep(
            self.agents,
            "agent",
            {**agent, "name": body["name"], "block_ids": [block["id"] for block in made]},
        )

    def _approval_rules(self, ids: list[str]) -> list[Any]:
        return [
            {"tool_name": self.tools[i]["name"], "type": "requires_approval"}
            for i in ids
            if self.tools[i].get("default_requires_approval")
        ]

    def _check_model(self, body: Any) -> None:
        if body.get("model") == "openai/refused":
            raise Refusal(422, "model: there is no model openai/refused")

    def _tool_named(self, name: str) -> str:
        for tool in self.tools.values():
            if tool["name"] == name:
                return str(tool["id"])
        raise Refusal(404, f"`tools`: there is no tool named {name}")

    def _change_agent(self, agent_id: str, body: Any) -> Any:
        agent = self._found(self.agents, agent_id)
        self._check_model(body)
        new = [i for i in body.get("tool_ids", []) if i not in agent["tool_ids"]]
        agent.update(body)
        rules = self._approval_rules(new)
        agent["tool_rules"] += [rule for rule in rules if rule not in agent["tool_rules"]]
        return self._shown(agent)

    def _approve(self, agent_id: str, tool: str, wanted: bool) -> None:
        agent = self._found(self.agents, agent_id)
        rule = {"tool_name": tool, "type": "requires_approval"}
        agent["tool_rules"] = [each for each in agent["tool_rules"] if each != rule]
        if wanted:
            agent["tool_rules"].append(rule)

    def _attach(self, agent_id: str, verb: str, block_id: str) -> None:
        ids = self._found(self.agents, agent_id)["block_ids"]
        if verb == "detach":
            if block_id not in ids:
                raise Refusal(404, "not attached")
            ids.remove(block_id)
            return
        labels = {self.blocks[each]["label"] for each in ids if each != block_id}
        if self._found(self.blocks, block_id)["label"] in labels:
            raise Refusal(409, "another block has that label")
        if block_id not in ids:
            ids.append(block_id)

    def _new_block(self, body: Any) -> Any:
        given = {"limit": 100_000, "description": None, "read_only": False, "tags": []}
        return self._keep(self.blocks, "block", {**given, "metadata": {}, **body})

    def _put_tool(self, body: Any) -> Any:
        name = body["source_code"].split("def ")[-1].split("(")[0]
        for tool in self.tools.values():
            if tool["name"] == name:
                tool.update(body)
                return tool
        return self._keep(self.tools, "tool", {**body, "name": name, "tool_type": "custom"})

    def _schedule(
        self, method: str, agent_id: str, rest: list[str], body: Any, key: str | None
    ) -> Any:
        if method == "POST":
            if "message" in body:
                message = {"role": "user", "content": body.pop("message")}
                body["action"] = {"type": "message", "messages": [message]}
            document = {"agent_id": agent_id, "timezone": "UTC", **body}
            return self._once(
                key,
                "schedule",
                self.schedules,
                lambda: self._keep(self.schedules, "schedule", document),
            )
        schedule = self._found(self.schedules, rest[0])
        if method == "DELETE":
            del self.schedules[rest[0]]
            return None
        if "message" in body:
            schedule["action"]["messages"][0]["content"] = body.pop("message")
        schedule.update(body)
        return schedule

    def _mcp(self, method: str, rest: list[str], body: Any, key: str | None) -> Any:
        if method == "POST":
            name = body["server_name"]
            document = {"server_name": name, **body["config"]}
            return self._once(
                key, "server", self.servers, lambda: self._keep(self.servers, "server", document)
            )
        server = self._found(self.servers, rest[0])
        if rest[1:] == ["refresh"]:
            tag = f"mcp:{server['server_name']}"
            if not any(tag in tool["tags"] for tool in self.tools.values()):
                for name in ("search", "fetch"):
                    tool = {"name": name, "tool_type": "external_mcp", "tags": [tag]}
                    self._keep(self.tools, "tool", tool)
            return {}
        server.update(body["config"])
        return server

    def _group(self, method: str, rest: list[str], body: Any, key: str | None) -> Any:
        if method == "POST" and not rest:
            document = {**body, **body.pop("manager_config", {"manager_type": "round_robin"})}
            return self._once(
                key, "group", self.groups, lambda: self._keep(self.groups, "group", document)
            )
        group = self._found(self.groups, rest[0])
        match method, rest[1:]:
            case "DELETE", []:
                del self.groups[rest[0]]
            case "POST", ["members"]:
                if body["agent_id"] not in group["agent_ids"]:
                    group["agent_ids"].append(body["agent_id"])
            case "DELETE", ["members", agent_id]:
                if agent_id not in group["agent_ids"]:
                    raise Refusal(404, "no member")
                group["agent_ids"].remove(agent_id)
            case "PATCH", []:
                group.update(body)
        return group

    def _shown(self, agent: dict[str, Any]) -> dict[str, Any]:
        shown = {
            **agent,
            "blocks": [self.blocks[i] for i in agent["block_ids"] if i in self.blocks],
            "tools": [self.tools[i] for i in agent["tool_ids"] if i in self.tools],
            "sources": [],
            "llm_config": {"context_window": agent.get("context_window_limit", 32_000)},
            "secrets": [{"key": k, "value": v} for k, v in agent.get("secrets", {}).items()],
        }
        return copy.deepcopy(shown)
