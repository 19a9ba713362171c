"""What one organisation has, another can neither see nor change, on whichever route it asks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from services.api.adapters.server.mcp_endpoint_protocol import OfferedTool
from services.api.app import HANDLERS
from services.api.http.authentication import HEALTH_PATHS, OAUTH_CALLBACK
from services.api.openapi.operation import Description, documented_path
from services.api.resources.server.mcp_endpoint_tools import TOOLS
from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, says, unique
from tests.e2e.two_organisations import (
    OWNER,
    STRANGER,
    WORD,
    api_of_two,
    applied,
    belongings,
    client_of,
    made,
    nobodys,
    wanted_agent,
)
from tests.servers import HeelerInstance

PARAMETER = re.compile(r"\{(\w+)\}")
# What these say is about the server, and is the same for everybody at any one time.
ABOUT_THE_SERVER = frozenset(
    (*HEALTH_PATHS, "/livez", "/metrics", "/openapi/{asset:str}", OAUTH_CALLBACK)
)
# The parameters of paths that name nothing that an organisation has.
NOBODYS_OWN = {
    "label": "human",
    "version": "1",
    "transaction_id": "transaction-1",
    "job_id": f"job-{NOBODY}",
}
# At the end of an agent file: when it was written.
WRITTEN_AT = re.compile(r'"created_at": "[^"]+"\s*}$')
# What must be in a query or a body besides.
QUERY = {"query": WORD, "uri": "memo://a"}
BODIES: Mapping[str, Any] = {
    "POST /v1/messages/search": {"query": WORD},
    "POST /v1/agents/messages/search": {"query": WORD},
    "POST /v1/passages/search": {"query": WORD},
    "POST /v1/tools/search": {"query": WORD},
}
# What must be in the bodies of routes that make something of what there is.
CHANGING: Mapping[str, Any] = {
    "POST /v1/fleets/{fleet_id}/plans": {},
    "POST /v1/fleets/{fleet_id}/applies": {"plan_id": f"plan-{NOBODY}"},
}


@dataclass(frozen=True)
class Route:
    """An operation of the api, as its documents have it."""

    method: str
    path: str
    query: frozenset[str]

    @property
    def parameters(self) -> list[str]:
        return PARAMETER.findall(self.path)

    @property
    def is_search(self) -> bool:
        return f"{self.method} {self.path}" in BODIES

    async def ask(self, client: httpx.AsyncClient, names: Mapping[str, str]) -> httpx.Response:
        """The answer about what has these names, in the path and in the query."""
        if self.path.startswith("/v1/mcp-servers") and "mcp_tool_id" in names:
            names = {**names, "tool_id": names["mcp_tool_id"]}
        path = PARAMETER.sub(lambda found: names[found[1]], self.path)
        query = {name: value for name, value in {**QUERY, **names}.items() if name in self.query}
        bodies = {**BODIES, **CHANGING}
        body = bodies.get(f"{self.method} {self.path}", {"messages": says("hello")})
        sent = {} if self.method in ("GET", "DELETE") else {"json": body}
        return await client.request(self.method, path, params=query, **sent)


def routes() -> Iterator[Route]:
    """Every operation that says anything of what an organisation has."""
    for handler in HANDLERS:
        described = handler.opt.get("description", Description())
        query = frozenset(described.query.model_fields if described.query else ())
        for method in sorted(handler.http_methods - {"OPTIONS"}):
            for path in sorted(handler.paths - ABOUT_THE_SERVER):
                yield Route(method, documented_path(path), query)


ROUTES = list(routes())
READING = [route for route in ROUTES if route.method == "GET" or route.is_search]


def without(text: str, names: Mapping[str, str]) -> str:
    """A text that does not tell which of these names it is about."""
    for name in sorted(names.values(), key=len, reverse=True):
        text = text.replace(name, "<name>")
    return text


async def read(client: httpx.AsyncClient, names: Mapping[str, str]) -> dict[Route, tuple[int, str]]:
    """What all routes say that read what has these names."""
    answers = {route: await route.ask(client, names) for route in READING}
    return {
        route: (answer.status_code, WRITTEN_AT.sub("", answer.text))
        for route, answer in answers.items()
    }


@pytest.fixture(scope="module")
async def base_url(heeler: HeelerInstance) -> AsyncIterator[str]:
    async with api_of_two(heeler) as url:
        yield url


@pytest.fixture
async def owner(base_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(base_url, OWNER) as client:
        yield client


@pytest.fixture
async def stranger(base_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(base_url, STRANGER) as client:
        yield client


async def test_what_another_organisation_has_is_on_every_route_as_if_it_were_nowhere(
    heeler: HeelerInstance, owner: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    lists = [route for route in READING if not route.parameters]
    before = {route: (await route.ask(stranger, {})).text for route in lists}
    async with belongings(heeler, owner) as has:
        theirs, nothing = {**NOBODYS_OWN, **has}, {**NOBODYS_OWN, **nobodys(has)}
        shown = await read(owner, theirs)
        unseen = [
            route
            for route, (status, _) in shown.items()
            if status == 404 and "/jobs/" not in route.path
        ]
        assert unseen == [], "the owner sees all that it has"
        for route in lists:
            assert (await route.ask(stranger, {})).text == before[route], route
        for route in ROUTES:
            asked = await route.ask(stranger, theirs)
            as_nowhere = await route.ask(stranger, nothing)
            said = (asked.status_code, without(asked.text, theirs))
            assert said == (as_nowhere.status_code, without(as_nowhere.text, nothing)), route
            assert WORD not in said[1], route
        assert await read(owner, theirs) == shown, "nothing was changed"


async def test_the_configuration_of_the_server_is_the_operators(
    stranger: httpx.AsyncClient,
) -> None:
    path = "/v1/admin/configuration"
    for answer in (await stranger.get(path), await stranger.post(f"{path}/reload")):
        assert answer.status_code == 403
        assert "Only the operator" in answer.json()["detail"]


async def test_over_mcp_an_agent_of_another_organisation_is_as_if_it_were_nowhere(
    owner: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    agent = await new_agent(owner, unique("key"))
    run = await made(owner, "POST", f"/v1/agents/{agent}/messages/async", json=HELLO)
    theirs = {**NOBODYS_OWN, "agent_id": agent, "run_id": run["id"]}
    nothing = {**NOBODYS_OWN, **nobodys({"agent_id": agent, "run_id": run["id"]})}
    for tool in TOOLS:
        if tool.name != "create_agent":
            answers = [await called(stranger, tool, names) for names in (theirs, nothing)]
            asked, as_nowhere = map(without, answers, (theirs, nothing))
            assert asked == as_nowhere, tool.name
            assert without(await called(owner, tool, theirs), theirs) != asked, tool.name


HELLO = {"messages": says(f"SAY:{WORD}")}


async def new_agent(client: httpx.AsyncClient, key: str) -> str:
    """The id of an agent that is made under an Idempotency-Key."""
    fields = {
        "name": "twin",
        "model": MODEL,
        "embedding": EMBEDDING,
        "memory_blocks": [{"label": "human", "value": WORD}],
    }
    headers = {"idempotency-key": key}
    return str((await made(client, "POST", "/v1/agents", json=fields, headers=headers))["id"])


async def called(
    client: httpx.AsyncClient, tool: OfferedTool[Any], names: Mapping[str, str]
) -> str:
    """What a tool answers over MCP that gets those of these names that it takes."""
    given = {"message": "hello", "value": WORD, "query": WORD, "wait_seconds": 30, **names}
    taken: Any = tool.input_schema["properties"]
    arguments = {name: value for name, value in given.items() if name in taken}
    params = {"name": tool.name, "arguments": arguments}
    answer = await client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        },
    )
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_plan_neither_reads_nor_changes_what_another_organisation_has(
    owner: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    name = unique(WORD)
    of_owner, of_stranger = [
        (await made(client, "POST", "/v1/fleets", json={"key": "the same key", "name": WORD}))["id"]
        for client in (owner, stranger)
    ]
    assert of_owner != of_stranger
    wanted = wanted_agent(name)
    plan = await made(owner, "POST", f"/v1/fleets/{of_owner}/plans", json=wanted)
    apply = await applied(owner, of_owner, plan["id"])
    [agent] = await made(owner, "GET", "/v1/agents", params={"name": name})
    members = await made(owner, "GET", f"/v1/fleets/{of_owner}/members")

    path = f"/v1/fleets/{of_stranger}"
    for route, body in (("applies", {"plan_id": plan["id"]}), ("plans", {"undo": apply["id"]})):
        answer = await stranger.post(f"{path}/{route}", json=body)
        assert answer.status_code == 404, answer.text
    ours = wanted_agent(name, adopt=True, prune=True, reset_memory=[name])
    own_plan = await made(stranger, "POST", f"{path}/plans", json=ours)
    assert [unit["action"] for unit in own_plan["units"]] == ["create"]
    await applied(stranger, of_stranger, own_plan["id"])
    [made_agent] = await made(stranger, "GET", "/v1/agents", params={"name": name})
    assert made_agent["id"] != agent["id"]
    await made(stranger, "DELETE", path)

    assert await made(owner, "GET", f"/v1/agents/{agent['id']}") == agent
    assert await made(owner, "GET", f"/v1/fleets/{of_owner}/members") == members
    await made(owner, "DELETE", f"/v1/fleets/{of_owner}")


async def test_the_same_key_means_another_request_in_another_organisation(
    owner: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    key, otid = unique("key"), unique("otid")
    agents, runs = [], []
    for client in (owner, stranger):
        agent = await new_agent(client, key)
        assert await new_agent(client, key) == agent
        said = {"messages": says("SAY:hello", otid=otid)}
        await made(client, "POST", f"/v1/agents/{agent}/messages", json=said)
        [run] = await made(client, "GET", f"/v1/runs?agent_id={agent}")
        agents.append(agent)
        runs.append(run["id"])
    assert len({*agents}) == len({*runs}) == 2


async def test_who_has_no_key_is_told_so(base_url: str) -> None:
    async with httpx.AsyncClient(base_url=base_url) as client:
        assert (await client.get("/v1/agents")).status_code == 401
        assert (await client.get("/v1/health")).status_code == 200
