"""What was deleted leaves the disk: tables, the files of NATS, logs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import EMBEDDING, MODEL, SECONDS_MAX, call_tool, says, unique
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance, wait_until

CANARY = "canary-in-the-mine"
TABLES = """
select format('select %L from %I.%I t where t::text like %L limit 1',
              n.nspname || '.' || c.relname, n.nspname, c.relname, '%%{canary}%%')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')"""
OF = "aggregate_id = '{}'"
CUSTOM_TOOL = '''
def repeat(text: str) -> str:
    """Repeat a text.

    Args:
        text (str): what to repeat
    """
    print(text)
    return text + "!"
'''


@pytest.fixture(scope="module")
def forgetful(model: ScriptedModelProcess) -> Iterator[HeelerInstance]:
    env = {
        "HEELER_PROCESSES": "one",
        "HEELER_ERASE_AFTER_HOURS": "0",
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
    }
    with HeelerInstance(env=env) as instance:
        yield instance


def tables_with(heeler: HeelerInstance, text: str) -> list[str]:
    """The tables that have a text in any column."""
    looks = heeler.psql(TABLES.format(canary=text))
    return [row[0] for (look,) in looks for row in heeler.psql(look)]


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that have a text in them."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def owners_of(heeler: HeelerInstance, agent_id: str) -> list[str]:
    """An identity and a project of an agent, whose every text is the canary; their paths."""
    identity = {
        "identifier_key": CANARY,
        "name": CANARY,
        "identity_type": "user",
        "agent_ids": [agent_id],
        "properties": [{"key": "k", "value": CANARY, "type": "string"}],
    }
    project = {"name": f"project {CANARY}", "description": CANARY, "tags": [CANARY]}
    made = []
    for path, body in (("/v1/identities", identity), ("/v1/projects", project)):
        answer = httpx.post(f"{heeler.base_url}{path}", json=body)
        assert answer.is_success, answer.text
        made.append(f"{path}/{answer.json()['id']}")
    return made


def copies_of(heeler: HeelerInstance, agent_id: str) -> list[str]:
    """A template, a fork and an import of an agent, called by the canary; their paths."""
    with httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as http:
        named = {"type": "agent", "agent_id": agent_id, "name": CANARY}
        template = http.post("/v1/templates", json=named)
        fork = http.post(f"/v1/agents/{agent_id}/fork", json={"name": f"fork {CANARY}"})
        file = http.get(f"/v1/agents/{agent_id}/export?format=heeler").content
        upload = {"file": (f"{CANARY}.heeler.gz", file)}
        asked = {"conflicts": "copy", "name": f"copy {CANARY}"}
        copy = http.post("/v1/agents/import", files=upload, data=asked)
        for answer in (template, fork, copy):
            assert answer.is_success, answer.text
        agents = [fork.json()["id"], *copy.json()["agent_ids"]]
        return [f"/v1/templates/{CANARY}", *(f"/v1/agents/{id}" for id in agents)]


FLEET = {"key": f"key {CANARY}", "name": f"fleet {CANARY}", "origin": f"/srv/{CANARY}"}


def fleet_of(heeler: HeelerInstance) -> list[str]:
    """A fleet with an agent, of which the canary is all there is to say; their paths."""
    with httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as http:
        path = f"/v1/fleets/{http.post('/v1/fleets', json=FLEET).json()['id']}"
        fields = {"model": MODEL, "system": f"You are a {CANARY}"}
        agent = {"name": f"planned {CANARY}", "key": CANARY, "file": CANARY, "fields": fields}
        plan = http.post(f"{path}/plans", json={"agents": [agent], "origin": FLEET["origin"]})
        assert plan.is_success, plan.text
        asked = {"plan_id": plan.json()["id"], "by": CANARY}
        apply = http.post(f"{path}/applies", json=asked).json()
        of_apply = f"{path}/applies/{apply['id']}"
        wait_until("applied", lambda: http.get(of_apply).json()["status"] != "running", 30.0)
        [member] = http.get(f"{path}/members").json()
        return [f"/v1/agents/{member['id']}", path]


def group_of(heeler: HeelerInstance, agent_id: str) -> str:
    """A group with an agent, in which the canary was said; its path."""
    with httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as http:
        asked = {"agent_ids": [agent_id], "name": CANARY, "description": CANARY}
        group = http.post("/v1/agent-groups", json=asked)
        assert group.is_success, group.text
        path = f"/v1/agent-groups/{group.json()['id']}"
        answer = http.post(f"{path}/messages", json={"messages": says(f"SAY:{CANARY}")})
        assert CANARY in str(answer.json()["messages"]), answer.text
        return path


def test_nothing_that_was_deleted_is_left(forgetful: HeelerInstance) -> None:
    """MEM-28: texts of a deleted agent, file and folder leave the event log, NATS and the logs."""
    letta = Letta(base_url=forgetful.base_url, api_key="none", timeout=SECONDS_MAX)
    tool = letta.tools.create(source_code=CUSTOM_TOOL)
    agent = letta.agents.create(
        name=unique("erased"),
        model=MODEL,
        embedding=EMBEDDING,
        memory_blocks=[{"label": "human", "value": f"Ada: {CANARY}"}],
        tool_ids=[tool.id],
    )
    kept = letta.agents.create(name=unique("kept"), model=MODEL)
    letta.agents.messages.create(agent.id, messages=says(f"I am {CANARY}"))
    call_tool(letta, agent.id, "repeat", text=CANARY)
    call_tool(letta, agent.id, "memory_insert", label="human", new_string=f"More {CANARY}")
    letta.agents.passages.create(agent.id, text=f"Archived {CANARY}")
    folder = letta.folders.create(name=f"folder {CANARY}", embedding=EMBEDDING)
    upload = io.BytesIO(f"A file with {CANARY} in it".encode())
    upload.name = f"{CANARY}.txt"
    letta.folders.files.upload(folder.id, file=upload)
    about = [*copies_of(forgetful, agent.id), *owners_of(forgetful, agent.id)]
    about += [group_of(forgetful, kept.id), *fleet_of(forgetful)]
    letta.agents.messages.create(kept.id, messages=says("I stay"))
    assert "agent.events" in tables_with(forgetful, CANARY)
    nats = forgetful.home / "nats"
    wait_until("published", lambda: bool(files_with(nats, CANARY)), 30.0)

    of_agent = OF.format(agent.id)
    [(last,)] = forgetful.psql(f"select max(version) from agent.events where {of_agent}")
    was = f"{forgetful.base_url}/v1/agents/{agent.id}/core-memory/blocks?at={agent.id}.{last}"
    assert CANARY in httpx.get(was).text

    letta.agents.delete(agent.id)
    letta.folders.delete(folder.id)
    for path in about:
        assert httpx.delete(f"{forgetful.base_url}{path}").status_code == 200

    wait_until("erased from Postgres", lambda: not tables_with(forgetful, CANARY), 60.0)
    wait_until("erased from NATS", lambda: not files_with(nats, CANARY), 30.0)
    assert files_with(forgetful.home / "logs", CANARY) == []
    told = forgetful.psql(
        "select topic, payload->>'erased_at' is not null, metadata->>'actor' is not null"
        f" from agent.events where {of_agent} order by version"
    )
    assert httpx.get(was).status_code == 404, "what was erased is not shown as it was either"
    assert told[0] == ("agent.created", True, True)
    assert told[-1] == ("agent.deleted", False, True)
    assert "I stay" in str(letta.agents.messages.list(kept.id).items)
    again = httpx.post(f"{forgetful.base_url}/v1/fleets", json={**FLEET, "name": "again"})
    assert (again.status_code, again.json()["name"]) == (200, "again"), again.text
    checked = forgetful.command("rebuild", "--check")
    assert checked.returncode == 0, checked.stdout
