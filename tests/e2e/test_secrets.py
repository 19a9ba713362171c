"""Secrets of agents and environments of tools: what the code is given, and nobody else sees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from deploy.embedded.settings import SERVICES
from tests.e2e.asking import MODEL, SECONDS_MAX, call_tool, unique
from tests.e2e.conftest import NewAgent
from tests.mcp_servers.changing import changing_server
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SHOWN = {"include": ["agent.secrets", "agent.tools"]}
TELLS = '''
def {name}(variable: str) -> str:
    """Say how long a variable of the environment is, and how it begins.

    Args:
        variable: its name
    """
    import os
    value = os.environ.get(variable)
    return "not set" if value is None else f"{{len(value)}} {{value[:2]}}"
'''


@pytest.fixture(scope="module")
def teller(letta: Letta) -> Iterator[Any]:
    """A tool that tells of a variable."""
    name = unique("teller").replace("-", "_")
    tool = letta.tools.create(source_code=TELLS.format(name=name))
    yield tool
    letta.tools.delete(str(tool.id))


def told(letta: Letta, agent_id: str, tool: Any, variable: str) -> str:
    """What the tool says of a variable when the agent's model calls it."""
    return str(call_tool(letta, agent_id, tool.name, variable=variable).tool_return)


def values(shown: list[dict[str, Any]]) -> dict[str, str]:
    return {secret["key"]: secret["value"] for secret in shown}


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
@pytest.mark.operation("GET /v1/agents/{agent_id}")
def test_secrets_are_shown_to_who_may_read_the_agent_and_reach_its_tools(
    letta: Letta, http: httpx.Client, legacy: httpx.Client, new_agent: NewAgent, teller: Any
) -> None:
    """API-12, SBX-05: secrets are environment variables of the agent's own custom tools."""
    secret = 'pa"ss\\wörd\n\x1f'
    metadata = {"secrets": [1.5], "value": "sealed:abc", "n": 1e2}
    agent = new_agent(
        secrets={"TOKEN": secret, "EMPTY": ""}, tool_ids=[teller.id], metadata=metadata
    )
    [token, empty] = agent.secrets or []
    assert (token.key, token.value, empty.key, empty.value) == ("TOKEN", secret, "EMPTY", "")
    assert re.fullmatch(f"agent-env-{UUID}", str(token.id))
    assert token.agent_id == agent.id
    assert agent.tool_exec_environment_variables == agent.secrets

    path = f"/v1/agents/{agent.id}"
    shown = http.get(path, params=SHOWN).json()
    assert values(shown["secrets"]) == {"TOKEN": secret, "EMPTY": ""}
    assert shown["secrets"] == shown["tool_exec_environment_variables"]
    assert shown["secrets"][0]["value_enc"] is None
    assert shown["metadata"] == metadata
    plain = http.get(path).json()
    assert plain["secrets"] == plain["tool_exec_environment_variables"] == []
    assert plain.keys() == shown.keys()
    assert values(legacy.get(path).json()["secrets"]) == {"TOKEN": secret, "EMPTY": ""}
    listed = http.get("/v1/agents/", params={"name": agent.name, **SHOWN}).json()
    assert listed == [shown]

    other = new_agent(tool_ids=[teller.id])
    assert told(letta, agent.id, teller, "TOKEN") == f"{len(secret)} pa"
    assert told(letta, agent.id, teller, "EMPTY") == "0 "
    assert told(letta, other.id, teller, "TOKEN") == "not set"
    ran = letta.agents.tools.run(teller.name, agent_id=agent.id, args={"variable": "TOKEN"})
    assert ran.func_return == f"{len(secret)} pa"

    changed = http.patch(path, json={"secrets": {"TOKEN": "other"}}).json()
    assert values(changed["secrets"]) == {"TOKEN": "other"}
    assert changed["secrets"][0]["id"] == token.id
    assert values(http.patch(path, json={"description": "x"}).json()["secrets"]) == {
        "TOKEN": "other"
    }
    assert told(letta, agent.id, teller, "TOKEN") == "5 ot"
    legacy_field = {"tool_exec_environment_variables": {"OLD": "way"}}
    assert values(http.patch(path, json=legacy_field).json()["secrets"]) == {"OLD": "way"}
    assert told(letta, agent.id, teller, "TOKEN") == "not set"
    cleared = http.patch(path, json={"secrets": {}}).json()
    assert cleared["secrets"] == cleared["tool_exec_environment_variables"] == []
    assert told(letta, agent.id, teller, "OLD") == "not set"


@pytest.mark.operation("POST /v1/tools/run")
def test_source_is_run_with_the_given_variables(http: httpx.Client) -> None:
    body = {
        "source_code": TELLS.format(name="once"),
        "args": {"variable": "KEY"},
        "env_vars": {"KEY": "hunter2"},
    }
    assert http.post("/v1/tools/run", json=body).json()["tool_return"] == "7 hu"


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ({"1A": "hunter2"}, "no name of an environment variable"),
        ({"A=B": "hunter2"}, "no name of an environment variable"),
        ({"A": "x" * 40_000}, "more than 32768 bytes"),
        ({f"A{n}": "x" for n in range(101)}, "at most 100"),
        ({f"A{n}": "x" * 30_000 for n in range(5)}, "150000 bytes"),
    ],
)
def test_what_no_program_can_have_is_refused(
    http: httpx.Client, new_agent: NewAgent, secrets: dict[str, str], said: str
) -> None:
    """API-14: the refusal names the field and the fix, and shows no value."""
    for method, path, body in (
        ("POST", "/v1/agents/", {"model": MODEL, "secrets": secrets}),
        ("POST", "/v1/tools/run", {"source_code": "x", "args": {}, "env_vars": secrets}),
    ):
        answer = http.request(method, path, json=body)
        assert answer.status_code == 422, answer.text
        assert said in answer.json()["detail"]
        assert "hunter2" not in answer.text


CONFIG = "/v1/sandbox-config"


@pytest.mark.operation("POST /v1/sandbox-config/")
@pytest.mark.operation("POST /v1/sandbox-config/local")
@pytest.mark.operation("POST /v1/sandbox-config/local/default")
@pytest.mark.operation("POST /v1/sandbox-config/e2b/default")
@pytest.mark.operation("PATCH /v1/sandbox-config/{sandbox_config_id}")
@pytest.mark.operation("DELETE /v1/sandbox-config/{sandbox_config_id}")
@pytest.mark.operation("GET /v1/sandbox-config/")
def test_the_settings_of_the_sandbox(http: httpx.Client) -> None:
    """API-12: one of a type, made or changed by the same requests as in V1."""
    made = http.post(f"{CONFIG}/local/default").json()
    assert re.fullmatch(f"sandbox-{UUID}", made["id"])
    fresh = {"sandbox_dir": "/tmp", "use_venv": False, "venv_name": "venv", "pip_requirements": []}
    assert (made["type"], made["config"]) == ("local", fresh)
    wanted = {**fresh, "venv_name": "other", "sandbox_dir": "/srv/mine"}
    changed = http.post(f"{CONFIG}/local", json=wanted).json()
    assert changed["config"] == wanted
    assert (changed["id"], changed["created_at"]) == (made["id"], made["created_at"])
    assert changed["updated_at"] > made["updated_at"]
    assert http.post(f"{CONFIG}/local/default").json() == changed
    assert http.get(f"{CONFIG}/").json() == [changed]
    assert http.get(f"{CONFIG}/", params={"sandbox_type": "local"}).json() == [changed]
    assert http.get(f"{CONFIG}/", params={"sandbox_type": "e2b"}).json() == []
    whole = http.post(f"{CONFIG}/", json={"config": {"venv_name": "third"}}).json()
    assert whole["config"] == {**fresh, "venv_name": "third"}
    path = f"{CONFIG}/{made['id']}"
    patched = http.patch(path, json={"config": wanted}).json()
    assert patched["config"] == wanted
    for answer in (
        http.post(f"{CONFIG}/", json={"config": {"template": "abc"}}),
        http.post(f"{CONFIG}/e2b/default"),
    ):
        assert answer.status_code == 422
        assert "its own" in answer.text
    assert http.delete(path).status_code == 204
    assert http.get(f"{CONFIG}/").json() == []
    for answer in (http.delete(path), http.patch(path, json={"config": wanted})):
        assert (answer.status_code, "not found" in answer.text) == (404, True)


@pytest.mark.operation("POST /v1/sandbox-config/{sandbox_config_id}/environment-variable")
@pytest.mark.operation("GET /v1/sandbox-config/{sandbox_config_id}/environment-variable")
@pytest.mark.operation("PATCH /v1/sandbox-config/environment-variable/{env_var_id}")
@pytest.mark.operation("DELETE /v1/sandbox-config/environment-variable/{env_var_id}")
def test_variables_of_the_sandbox_reach_every_custom_tool(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, teller: Any
) -> None:
    """API-12: all custom tools have them; the secrets of an agent count before them."""
    config = http.post(f"{CONFIG}/local/default").json()
    variables = f"{CONFIG}/{config['id']}/environment-variable"
    agent = new_agent(secrets={"OWN": "own"}, tool_ids=[teller.id])
    assert told(letta, agent.id, teller, "SHARED") == "not set"
    sent = {"key": "SHARED", "value": 'all"of\n us', "description": "for all"}
    made = http.post(variables, json=sent).json()
    assert re.fullmatch(f"sandbox-env-{UUID}", made["id"])
    assert {name: made[name] for name in sent} == sent
    assert (made["sandbox_config_id"], made["value_enc"]) == (config["id"], None)
    assert told(letta, agent.id, teller, "SHARED") == f"{len(sent['value'])} al"
    shadowed = http.post(variables, json={"key": "OWN", "value": "everybody"}).json()
    assert told(letta, agent.id, teller, "OWN") == "3 ow"
    assert http.get(variables).json() == [made, shadowed]
    run = {"source_code": TELLS.format(name="once"), "args": {"variable": "SHARED"}}
    assert http.post("/v1/tools/run", json=run).json()["tool_return"].endswith(" al")

    again = http.post(variables, json={"key": "SHARED", "value": "new"}).json()
    assert (again["id"], again["value"], again["description"]) == (made["id"], "new", "for all")
    one = f"{CONFIG}/environment-variable/{made['id']}"
    assert http.patch(one, json={"key": "OWN"}).status_code == 409
    renamed = http.patch(one, json={"key": "RENAMED", "description": "other"}).json()
    assert (renamed["key"], renamed["value"], renamed["description"]) == ("RENAMED", "new", "other")
    assert told(letta, agent.id, teller, "SHARED") == "not set"
    assert told(letta, agent.id, teller, "RENAMED") == "3 ne"
    bad = http.post(variables, json={"key": "1A", "value": "hunter2"})
    assert (bad.status_code, "hunter2" in bad.text) == (422, False)
    assert http.delete(one).status_code == 204
    assert http.delete(one).status_code == 404
    assert told(letta, agent.id, teller, "RENAMED") == "not set"
    assert http.delete(f"{CONFIG}/{config['id']}").status_code == 204
    assert http.get(variables).status_code == 404
    http.post(f"{CONFIG}/local/default")
    assert http.get(variables).json() == []


async def test_a_secret_is_found_nowhere_in_plain(
    letta: Letta,
    heeler: HeelerInstance,
    model: ScriptedModelProcess,
    new_agent: NewAgent,
    teller: Any,
) -> None:
    """S12: a canary stands in no table, no file of Postgres and NATS, no log, and is shown to no
    model."""
    canary, updated, given, shared, newer, planned, of_server = (
        unique(f"canary{n}").replace("-", "") for n in range(7)
    )
    agent = new_agent(secrets={"CANARY": canary}, tool_ids=[teller.id])
    assert told(letta, agent.id, teller, "CANARY") == f"{len(canary)} ca"
    letta.agents.update(agent.id, secrets={"CANARY": updated})
    assert told(letta, agent.id, teller, "CANARY") == f"{len(updated)} ca"
    letta.agents.tools.run(teller.name, agent_id=agent.id, args={"variable": "CANARY"})
    run = {"source_code": TELLS.format(name="once"), "args": {"variable": "KEY"}}
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:
        ran = await client.post("/v1/tools/run", json={**run, "env_vars": {"KEY": given}})
        shown = await client.get(f"/v1/agents/{agent.id}", params=SHOWN)
        config = (await client.post(f"{CONFIG}/local/default")).json()
        path = f"{CONFIG}/{config['id']}/environment-variable"
        made = (await client.post(path, json={"key": "CANARIES", "value": shared})).json()
        assert made["value"] == shared
        one = f"{CONFIG}/environment-variable/{made['id']}"
        assert (await client.patch(one, json={"value": newer})).json()["value"] == newer
        with changing_server() as mcp_server:
            config = {"server_url": mcp_server.url, "auth_token": of_server}
            await apply_planned(client, {"CANARY": planned}, config)
    assert told(letta, agent.id, teller, "CANARIES") == f"{len(newer)} ca"
    assert ran.json()["tool_return"] == f"{len(given)} ca"
    assert updated in shown.text

    heeler.psql("checkpoint")
    secrets = (canary, updated, given, shared, newer, planned, of_server)
    words = re.compile("|".join(secrets).encode())
    assert words.search(b"-" + given.encode()), "what is looked for would be found"
    beside = heeler.home.with_name(f"{heeler.home.name}.postgres")
    files = [
        path
        for folder in (heeler.home, beside)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_socket()
    ]
    assert {"api.log", "tools.log"} & {path.name for path in files} or heeler.log("services")
    assert any("pg_wal" in path.parts for path in files)
    assert [path for path in files if holds(path, words)] == []
    for service in SERVICES:
        for table, row in rows_of(heeler, service):
            assert words.search(row) is None, (service, table)
    asked = json.dumps(await model.requests()).encode()
    assert agent.id.encode() in asked or teller.name.encode() in asked
    assert words.search(asked) is None


async def apply_planned(
    client: httpx.AsyncClient, secrets: dict[str, str], config: dict[str, str]
) -> None:
    """Have a plan make an agent and an MCP server that has a token, and another one change the
    secrets of the agent."""
    name = unique("planned")
    fleet = (await client.post("/v1/fleets", json={"key": name, "name": name})).json()
    kind = {"mcp_server_type": "streamable_http", "auth_header": "X-Key"}
    server = {"name": name, "config": {**kind, **config}}
    agent = {"name": name, "key": "a.toml", "file": "a.toml"}
    for said in ({"first": "one"}, secrets):
        wanted = {**agent, "fields": {"model": MODEL, "secrets": said}, "mcp_servers": [server]}
        path = f"/v1/fleets/{fleet['id']}"
        plan = await client.post(f"{path}/plans", json={"agents": [wanted]})
        assert plan.status_code == 201, plan.text
        asked = {"plan_id": plan.json()["id"]}
        apply = (await client.post(f"{path}/applies", json=asked)).json()

        async def ended(path: str = f"{path}/applies/{apply['id']}") -> bool:
            return bool((await client.get(path)).json()["status"] != "running")

        await wait_for("the apply is over", ended)
        [*_, unit] = (await client.get(f"{path}/applies/{apply['id']}/units")).json()
        assert unit["result"] in ("created", "changed"), unit
    shown = await client.get(f"/v1/agents/{unit['id']}", params=SHOWN)
    assert secrets["CANARY"] in shown.text


def holds(path: Path, words: re.Pattern[bytes]) -> bool:
    try:
        return words.search(path.read_bytes()) is not None
    except FileNotFoundError:  # a segment that was taken away meanwhile
        return False


def rows_of(heeler: HeelerInstance, schema: str) -> Iterator[tuple[str, bytes]]:
    """All rows of a service as text: what is compressed in the files is not there."""
    tables = heeler.psql(f"select tablename from pg_tables where schemaname = '{schema}'")
    for (table,) in tables:
        for (row,) in heeler.psql(f'select t::text from "{schema}"."{table}" t'):
            yield table, str(row).encode()
