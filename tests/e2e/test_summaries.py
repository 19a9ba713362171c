"""Summaries of an agent's messages over HTTP: written, saved, limited, and no compaction."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from services.agent.domain.summaries.summary_prompts import LENGTHS, RULES, VERY_SHORT
from tests.e2e.asking import NOBODY, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess

SUMMARIZE = pytest.mark.operation("POST /v1/agents/{agent_id}/summarize")
ANSWER = "Hello from the scripted model."
# The model of the agent itself summarises: the test sees what it was asked.
SETTINGS: Any = {"mode": "all", "model": "openai/gpt-4o-mini"}


def talk(letta: Letta, agent_id: str, *texts: str) -> None:
    for text in texts:
        letta.agents.messages.create(agent_id, messages=says(text))


def summarize(http: httpx.Client, agent_id: str, **fields: Any) -> httpx.Response:
    return http.post(f"/v1/agents/{agent_id}/summarize", json=fields)


async def asked(model: ScriptedModelProcess, text: str) -> list[tuple[str, str]]:
    """What models were told and shown that were asked about this text, and nothing else."""
    found = []
    for body in await model.requests(last=256):
        messages = body.get("messages", [])
        is_summary = len(messages) == 2 and RULES in str(messages[0]["content"])
        if is_summary and text in str(messages[1]["content"]):
            found.append((str(messages[0]["content"]), str(messages[1]["content"])))
    return found


@SUMMARIZE
@pytest.mark.parametrize("length", list(LENGTHS))
async def test_each_length_reaches_the_model_with_its_template(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess, length: Any
) -> None:
    agent, early, late = new_agent(compaction_settings=SETTINGS), unique("tea"), unique("cake")
    talk(letta, agent.id, f"I drink {early}", "And then?", f"I eat {late}")
    before = letta.agents.retrieve(agent.id).message_ids
    answer = summarize(http, agent.id, summary_length=length, save_to_archival=False)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["summary"], body["summary_length"]) == (ANSWER, length)
    assert (body["message_count"], body["archival_passage_id"]) == (6, None)
    history = letta.agents.messages.list(agent.id, order="asc").items
    assert body["end"][:19] == history[-1].date.isoformat()[:19]
    assert letta.agents.retrieve(agent.id).message_ids == before
    [(prompt, shown)] = await asked(model, early)
    assert LENGTHS[length] in prompt
    assert early in shown
    assert late in shown


@SUMMARIZE
async def test_facts_of_all_parts_of_a_long_history_reach_the_model(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent(compaction_settings=SETTINGS)
    mark = unique("long")
    talk(letta, agent.id, *[f"{mark} fact-{number} {'x' * 3_000}" for number in range(5)])
    letta.agents.update(agent.id, context_window_limit=4_000)
    settings = {**SETTINGS, "model": agent.model}
    letta.agents.update(agent.id, compaction_settings=settings)
    answer = summarize(http, agent.id, save_to_archival=False)
    assert answer.json()["summary"] == ANSWER
    parts = [shown for _, shown in await asked(model, mark)]
    assert len(parts) > 1
    for number in (0, 4):
        assert f"fact-{number}" in "\n".join(parts)


@SUMMARIZE
def test_a_summary_is_found_in_the_archive(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(compaction_settings=SETTINGS)
    talk(letta, agent.id, "I like tea")
    answer = summarize(http, agent.id, message_count=1)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["message_count"], body["summary"]) == (1, ANSWER), "the answer of the assistant"
    passages = letta.agents.passages.list(agent.id)
    assert [(passage.id, passage.text, passage.tags) for passage in passages] == [
        (body["archival_passage_id"], ANSWER, ["summary"])
    ]
    found = letta.agents.passages.search(agent.id, query="scripted model", tags=["summary"])
    assert [result.content for result in found.results] == [ANSWER]


@SUMMARIZE
def test_a_second_summary_within_a_minute_is_told_when_to_come_again(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(compaction_settings=SETTINGS)
    empty = summarize(http, agent.id, message_count=5)
    assert (empty.status_code, empty.json()["summary"]) == (200, "")
    assert empty.json()["message_count"] == 0
    talk(letta, agent.id, "I like tea", "And cake")
    key = {"Idempotency-Key": unique("key")}
    path, wanted = f"/v1/agents/{agent.id}/summarize", {"message_count": 4}
    first = http.post(path, json=wanted, headers=key)
    assert first.status_code == 200
    refused = summarize(http, agent.id, message_count=4)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert "1 in one minute" in refused.json()["detail"]
    assert http.post(path, json=wanted, headers=key).json() == first.json(), "it is the same one"
    assert len(letta.agents.passages.list(agent.id)) == 1


@SUMMARIZE
async def test_a_model_that_fails_is_told_and_nothing_is_saved(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, mark = new_agent(compaction_settings=SETTINGS), unique("bad")
    talk(letta, agent.id, f"SAY:{mark}", "Well")
    await model.refuse(f"assistant: {mark}", status=400)
    failed = summarize(http, agent.id, summary_length="short")
    assert (failed.status_code, failed.headers["x-should-retry"]) == (400, "false")
    assert letta.agents.passages.list(agent.id) == []
    talk(letta, agent.id, "Again")
    assert summarize(http, agent.id, message_count=2).status_code == 200, "it did not count"


@SUMMARIZE
async def test_two_messages_have_a_prompt_of_their_own(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, mark = new_agent(compaction_settings=SETTINGS), unique("short")
    talk(letta, agent.id, mark)
    assert summarize(http, agent.id, summary_length="long").status_code == 200
    [(prompt, _)] = await asked(model, mark)
    assert VERY_SHORT in prompt


@SUMMARIZE
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"message_count": 0}, "message_count"),
        ({"summary_length": "huge"}, "summary_length"),
        ({"start_date": "yesterday"}, "start_date"),
        ({"start_date": "2026-02-02", "end_date": "2026-02-01"}, "start_date"),
        ({"save_to_archival": "perhaps"}, "save_to_archival"),
        ({"message_count": 2, "compaction_settings": {"mode": "all"}}, "compaction_settings"),
    ],
)
def test_a_wrong_field_is_refused_by_name(
    http: httpx.Client, new_agent: NewAgent, fields: dict[str, Any], named: str
) -> None:
    refused = summarize(http, new_agent().id, **fields)
    assert refused.status_code == 422
    assert named in refused.text


@SUMMARIZE
def test_a_date_range_is_summarised(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent(compaction_settings=SETTINGS)
    talk(letta, agent.id, "one", "two")
    nothing = summarize(http, agent.id, start_date="2001-01-01", end_date="2001-12-31")
    assert (nothing.json()["message_count"], nothing.json()["summary"]) == (0, "")
    first = letta.agents.messages.list(agent.id, order="asc").items[1]
    body = summarize(http, agent.id, start_date=first.date.date().isoformat()).json()
    assert body["message_count"] == 4
    assert body["start"] <= body["end"]


@SUMMARIZE
def test_an_unknown_agent_has_no_summary(http: httpx.Client) -> None:
    assert summarize(http, f"agent-{NOBODY}", message_count=3).status_code == 404
