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
from tests.e2e.asking import MODEL, SECONDS_MAX, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

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
    text = f"CALL:{tool.name}:{json.dumps({'variable': variable})}"
    answer = letta.agents.messages.create(agent_id, messages=says(text))
    [found] = [one for one in answer.messages if one.message_type == "tool_return_message"]
    return str(found.tool_return)


def values(shown: list[dict[str, Any]]) -> dict[str, str]:
    return {one["key"]: one["value"] for one in shown}


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


async def test_a_secret_is_found_nowhere_in_plain(
    letta: Letta,
    heeler: HeelerInstance,
    model: ScriptedModelProcess,
    new_agent: NewAgent,
    teller: Any,
) -> None:
    """S12: a canary stands in no table, no file of Postgres and NATS, no log, and is shown to no
    model."""
    canary, updated, given = (unique(f"canary{n}").replace("-", "") for n in range(3))
    agent = new_agent(secrets={"CANARY": canary}, tool_ids=[teller.id])
    assert told(letta, agent.id, teller, "CANARY") == f"{len(canary)} ca"
    letta.agents.update(agent.id, secrets={"CANARY": updated})
    assert told(letta, agent.id, teller, "CANARY") == f"{len(updated)} ca"
    letta.agents.tools.run(teller.name, agent_id=agent.id, args={"variable": "CANARY"})
    run = {"source_code": TELLS.format(name="once"), "args": {"variable": "KEY"}}
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:
        ran = await client.post("/v1/tools/run", json={**run, "env_vars": {"KEY": given}})
        shown = await client.get(f"/v1/agents/{agent.id}", params=SHOWN)
    assert ran.json()["tool_return"] == f"{len(given)} ca"
    assert updated in shown.text

    heeler.psql("checkpoint")
    words = re.compile("|".join((canary, updated, given)).encode())
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
