"""Agents as files: exported, deleted and imported again, copied and forked."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
from letta_client import Letta
from letta_client.types import AgentState

from tests.e2e.asking import says, tool_call, unique
from tests.e2e.conftest import NewAgent

# What an answer says of when something was looked at or done, and not of what it is.
WHEN = {"last_run_completion", "last_run_duration_ms", "updated_at", "last_updated_by_id"}


def exported(http: httpx.Client, agent_id: str, **headers: str) -> bytes:
    """An agent as a file of the full form."""
    answer = http.get(f"/v1/agents/{agent_id}/export?format=heeler", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/gzip"
    assert "attachment" in answer.headers["content-disposition"]
    return answer.content


def lines_of(file: bytes) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in gzip.decompress(file).splitlines()]


def imported(http: httpx.Client, file: bytes, **fields: str) -> httpx.Response:
    """The answer to the import of a file."""
    return http.post("/v1/agents/import", files={"file": ("agent.heeler.gz", file)}, data=fields)


def dump(http: httpx.Client, agent_id: str) -> dict[str, Any]:
    """Everything that the API says of an agent."""

    def get(path: str) -> Any:
        answer = http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()

    archives = get(f"/v1/archives/?agent_id={agent_id}")
    return {
        "agent": get(f"/v1/agents/{agent_id}"),
        "messages": get(f"/v1/agents/{agent_id}/messages?limit=1000"),
        "blocks": get(f"/v1/agents/{agent_id}/core-memory/blocks"),
        "tools": get(f"/v1/agents/{agent_id}/tools"),
        "context": get(f"/v1/agents/{agent_id}/context"),
        "runs": get(f"/v1/runs/?agent_id={agent_id}"),
        "conversations": get(f"/v1/conversations/?agent_id={agent_id}"),
        "archives": archives,
        "passages": [
            get(f"/v1/archives/{archive['id']}/passages?limit=100") for archive in archives
        ]
        if False
        else get(f"/v1/agents/{agent_id}/archival-memory?limit=100"),
    }


@pytest.fixture
def rich_agent(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> AgentState:
    """An agent with a bit of everything."""
    agent = new_agent(
        name=unique("rich"),
        memory_blocks=[
            {"label": "human", "value": "Name: Ada"},
            {"label": "persona", "value": "I am kind."},
        ],
        tags=["one", "two"],
        metadata={"huge": 1e300, "order": {"z": 1, "a": 2}},
    )
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    letta.agents.messages.create(
        agent.id,
        messages=says(tool_call("memory_insert", label="human", new_string="Likes tea.")),
    )
    letta.agents.passages.create(agent.id, text="The sky over Bern was red.", tags=["sky"])
    return agent


@pytest.mark.operation("POST /v1/agents/import")
@pytest.mark.operation("GET /v1/agents/{agent_id}/export")
def test_an_exported_and_deleted_agent_is_the_same_after_its_import(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    file = exported(http, rich_agent.id)
    letta.agents.delete(rich_agent.id)
    answer = imported(http, file, conflicts="replace")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"agent_ids": [rich_agent.id]}
    after = dump(http, rich_agent.id)
    assert after == before
    letta.agents.messages.create(rich_agent.id, messages=says("Hello again"))
