"""TOOL-15: an agent calls what its lists name, changed while the server runs."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from letta_client import Letta

from libs.contracts.tools.tool_permission_evaluation import LOOK_EVERY_SECONDS
from tests.e2e.asking import NOBODY, call_tool, unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.servers import HeelerInstance
from tests.waiting import wait_for

NO_LIST = {"tools": None, "capabilities": None}
# The next look of a process that did not hear of a change, and the call that shows it.
IN_FORCE_SECONDS_MAX = LOOK_EVERY_SECONDS + 1.0


def test_a_restricted_agent_cannot_call_what_its_lists_withhold(
    letta: Letta,
    http: httpx.Client,
    heeler: HeelerInstance,
    new_agent: NewAgent,
    new_tool: NewTool,
) -> None:
    """TOOL-15: refused in words and by an event, for the model and for the run route; allowed and
    refused again without a restart."""
    tool = new_tool("return str(sides - 2)")
    project = unique("project")
    agent = new_agent(tool_ids=[tool.id], project_id=project)
    other = new_agent(tool_ids=[tool.id])
    path, run = f"/v1/agents/{agent.id}/permissions", f"/v1/agents/{agent.id}/tools/{tool.name}/run"
    of_project = {"params": {"project_id": project}}

    def becomes(status: str) -> str:
        """What the model is told as soon as a change is in force."""

        def asked() -> str:
            result = call_tool(letta, agent.id, tool.name, sides=6)
            return str(result.tool_return) if result.status == status else ""

        waited = wait_for(f"a call that ends as {status}", asked, IN_FORCE_SECONDS_MAX)
        return asyncio.run(waited)

    assert http.get(path).json() == NO_LIST
    assert call_tool(letta, agent.id, tool.name, sides=6).status == "success"

    limits = {"tools": None, "capabilities": ["memory"]}
    assert http.put(path, json={"capabilities": ["memory"]}).json() == limits
    assert http.get(path).json() == limits
    refused = becomes("error")
    assert refused == (
        f"'{tool.name}' is not allowed for this agent: it needs what is not on the list of"
        " capabilities (code)."
    )
    assert call_tool(letta, other.id, tool.name, sides=6).status == "success"

    def refused_run() -> bool:
        ran = http.post(run, json={"args": {"sides": 6}}).json()
        return (ran["status"], ran["func_return"]) == ("error", refused)

    asyncio.run(wait_for("a refused run", refused_run, IN_FORCE_SECONDS_MAX))

    def refused_by_the_agent() -> list[tuple[str, ...]]:
        # Until its own process knows, calls are refused by the tools service, in the same words.
        assert call_tool(letta, agent.id, tool.name, sides=6).status == "error"
        return heeler.psql(
            "select payload->>'reason' from agent.events where topic = 'tool_call.forbidden'"
            f" and payload->>'tool' = '{tool.name}'"
        )

    events = asyncio.run(wait_for("an event", refused_by_the_agent, IN_FORCE_SECONDS_MAX))
    assert set(events) == {(refused,)}
    calls = heeler.psql(f"select status from tools.tool_runs where agent_id = '{agent.id}'")
    assert calls.count(("refused",)) >= 1

    listed = sorted([tool.id, "memory_insert"])
    assert http.put(path, json={"tools": listed}).json()["tools"] == listed
    becomes("success")
    http.put("/v1/permissions/tools", json={"tools": ["memory_insert"]}, **of_project)
    inserts: dict[str, Any] = {"tools": ["memory_insert"], "capabilities": None}
    assert http.get("/v1/permissions/tools", **of_project).json() == inserts
    assert http.get("/v1/permissions/tools").json() == NO_LIST
    assert "for this project" in becomes("error")
    assert call_tool(letta, other.id, tool.name, sides=6).status == "success"
    for url, of in ((path, {}), ("/v1/permissions/tools", of_project)):
        http.put(url, json={}, **of)
        assert http.get(url, **of).json() == NO_LIST
    becomes("success")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"capabilities": ["magic"]}, "capabilities"),
        ({"tools": [""]}, "tools"),
        ({"tools": ["x"] * 251}, "tools"),
        ({"denied": ["x"]}, "denied"),
    ],
)
def test_a_list_that_cannot_be_is_refused(
    http: httpx.Client, new_agent: NewAgent, body: dict[str, Any], field: str
) -> None:
    agent = new_agent()
    refused = http.put(f"/v1/agents/{agent.id}/permissions", json=body)
    assert refused.status_code == 422
    assert field in refused.text


def test_an_agent_that_is_not_there_has_no_list(http: httpx.Client) -> None:
    path = f"/v1/agents/agent-{NOBODY}/permissions"
    assert http.get(path).status_code == 404
    assert http.put(path, json={}).status_code == 404


def test_the_list_of_a_deleted_agent_goes_with_it(
    letta: Letta, http: httpx.Client, heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    agent = new_agent()
    http.put(f"/v1/agents/{agent.id}/permissions", json={"tools": []})
    rows = f"select tools from tools.tool_permissions where scope_id = '{agent.id}'"
    assert heeler.psql(rows) == [([],)]
    letta.agents.delete(agent.id)
    asyncio.run(wait_for("no list", lambda: not heeler.psql(rows)))
