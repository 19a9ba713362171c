"""The messages of all agents, found by time and by words; tags; agents that are hidden."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from letta_client import Letta

from libs.contracts.agent.conversations import main_conversation
from tests.e2e.asking import NOBODY, TIMESTAMP, says, unique
from tests.e2e.conftest import NewAgent

SEARCH = "/v1/messages/search"


@pytest.mark.operation("GET /v1/messages/")
@pytest.mark.operation("GET /v1/messages/{message_id}")
def test_messages_of_all_agents_are_listed_by_time(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    one, two = new_agent(), new_agent()
    texts = [unique("first"), unique("second")]
    for agent, text in ((one, texts[0]), (two, texts[1])):
        letta.agents.messages.create(agent.id, messages=says(text))

    newest = letta.messages.list(limit=6)

    mine = [message for message in newest if message.message_type == "user_message"]
    assert [message.content for message in mine[:2]] == texts[::-1]
    kinds = [message.message_type for message in newest[:2]]
    assert kinds == ["assistant_message", "user_message"]
    oldest_first = letta.messages.list(limit=3, order="asc", after=mine[1].id)
    assert oldest_first[0].message_type == "assistant_message"
    assert letta.messages.list(limit=1, after=newest[0].id)[0].id == newest[1].id
    assert letta.messages.list(limit=1, before=newest[1].id)[0].id == newest[0].id
    only = letta.messages.list(limit=50, include_return_message_types=["user_message"])
    assert {message.message_type for message in only} == {"user_message"}
    conversation = main_conversation(one.id)
    own = letta.messages.list(conversation_id=conversation)
    assert [message.id for message in own] == [
        message.id for message in reversed(letta.agents.messages.list(one.id).items)
    ]
    assert letta.messages.list(conversation_id=f"conv-{NOBODY}") == []
    assert http.get("/v1/messages", params={"after": f"message-{NOBODY}"}).status_code == 400

    [shown] = letta.messages.retrieve(mine[0].id)
    assert shown.to_dict() == mine[0].to_dict()
    assert http.get(f"/v1/messages/message-{NOBODY}").status_code == 404
    assert http.get("/v1/messages/nothing").status_code == 422


@pytest.mark.operation("POST /v1/messages/search")
def test_messages_are_found_by_their_words(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    one, two = new_agent(), new_agent()
    word = unique("zebra").replace("-", "")
    letta.agents.messages.create(one.id, messages=says(f"My cat likes the {word} a lot"))
    letta.agents.messages.create(two.id, messages=says(f"SAY:The {word} is gone"))
    now = datetime.now(UTC)

    def found(query: str = word, **fields: Any) -> list[dict[str, Any]]:
        asked: dict[str, Any] = {"search_mode": "fts", **fields}
        return [message.to_dict() for message in letta.messages.search(query=query, **asked)]

    everything = found()
    assert [(message["message_type"], message["agent_id"]) for message in everything] == [
        ("assistant_message", two.id),
        ("user_message", two.id),
        ("user_message", one.id),
    ]
    [mine] = found(agent_id=one.id)
    assert mine == {
        "message_type": "user_message",
        "content": f"My cat likes the {word} a lot",
        "message_id": mine["message_id"],
        "agent_id": one.id,
        "conversation_id": None,
        "created_at": mine["created_at"],
    }
    assert mine in found(agent_id=one.id, search_mode="hybrid")
    shown = http.post(SEARCH, json={"query": word, "agent_id": one.id}).json()
    assert TIMESTAMP.fullmatch(shown[0]["created_at"])
    assert found(f"{word} CAT") == [mine], "all of the words, in any case of letters"
    assert found(f"{word} dog") == []
    assert found(f'"likes the {word}"') == [mine]
    assert found(f'"{word} likes"') == []
    assert found(f"{word} -gone") == [mine]
    assert len(found(limit=1)) == 1
    assert found(conversation_id=main_conversation(one.id)) == [mine]
    assert len(found(start_date=now - timedelta(minutes=5), end_date=now)) == 3
    assert found(start_date=now + timedelta(minutes=5)) == []
    assert found(end_date=now - timedelta(minutes=5)) == []
    assert found("   ") == found("   ", search_mode="vector") == []
    turned = {"query": word, "start_date": "2026-02-01", "end_date": "2026-01-01T00:00:00Z"}
    for path in (SEARCH, "/v1/agents/messages/search"):
        refused = http.post(path, json=turned)
        assert (refused.status_code, "after end_date" in refused.text) == (422, True)
    assert http.post(SEARCH, json={}).status_code == 422
    assert http.post(SEARCH, json={"query": word, "limit": 101}).status_code == 422
    letta.agents.delete(one.id)
    for mode in ("fts", "vector", "hybrid"):
        assert found(agent_id=one.id, search_mode=mode) == []


@pytest.mark.operation("POST /v1/messages/search")
@pytest.mark.operation("POST /v1/agents/messages/search")
def test_messages_are_found_by_what_they_mean(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    one, two = new_agent(), new_agent()
    fact = "SAY:A ginger cat sleeps on the sofa of Omar every afternoon."
    for text in ("The rent of the flat is 900 euros.", fact, "The movie was too long."):
        letta.agents.messages.create(one.id, messages=says(text))
    letta.agents.messages.create(two.id, messages=says("SAY:A kitten naps on a couch."))
    question = "Which pet naps on the couch?"

    def found(mode: Any, **fields: Any) -> list[str]:
        asked: dict[str, Any] = {"agent_id": one.id, "search_mode": mode, **fields}
        return [message.message_id for message in letta.messages.search(query=question, **asked)]

    assert found("fts") == []
    near = found("vector", limit=2)
    said = {
        message.id
        for message in letta.agents.messages.list(one.id)
        if "ginger" in str(message.to_dict().get("content"))
    }
    assert set(near) == said, "what the agent said, and what it was asked to say"
    assert found("hybrid", limit=2) == near
    assert set(near) <= set(found("vector"))
    assert set(found("vector", conversation_id=main_conversation(one.id), limit=2)) == said
    assert found("vector", conversation_id=main_conversation(two.id)) == []
    assert found("vector", end_date=datetime.now(UTC) - timedelta(minutes=5)) == []
    body = {"query": question, "agent_id": one.id, "roles": ["assistant"], "limit": 1}
    [best] = http.post("/v1/agents/messages/search", json=body).json()
    assert (best["fts_rank"], best["vector_rank"], best["rrf_score"]) == (None, 1, 1 / 61)
    assert best["embedded_text"] == fact.removeprefix("SAY:")

    letta.agents.messages.create(one.id, messages=says("My kitten naps on the couch, too"))
    newest = letta.agents.messages.list(one.id, limit=10).items
    assert found("vector", limit=1)[0] in {message.id for message in newest}
    call = 'CALL:conversation_search:{"query": "pets that nap", "limit": 3}'
    answer = letta.agents.messages.create(one.id, messages=says(call))
    [returned] = [m for m in answer.messages if m.message_type == "tool_return_message"]
    assert "ginger cat" in returned.tool_return or "kitten" in returned.tool_return


@pytest.mark.operation("POST /v1/agents/messages/search")
def test_messages_are_found_with_their_ranks(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    word = unique("yak").replace("-", "")
    letta.agents.messages.create(agent.id, messages=says(f"SAY:A {word}"))

    def found(**body: Any) -> Any:
        body = {"search_mode": "fts", **body}
        answer = http.post("/v1/agents/messages/search", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    said, asked = found(query=word)
    assert said["message"]["role"] == "assistant"
    assert (said["fts_rank"], said["vector_rank"], said["rrf_score"]) == (1, None, 1 / 61)
    assert (asked["fts_rank"], asked["embedded_text"]) == (2, f"SAY:A {word}")
    assert asked["message"]["content"] == [{"type": "text", "text": f"SAY:A {word}"}]
    assert asked["message"]["agent_id"] == agent.id
    assert [hit["message"]["role"] for hit in found(query=word, roles=["user"])] == ["user"]
    assert found(query=word, project_id="project-1") == []
    assert found(agent_id=agent.id, limit=1)[0]["message"]["id"] == said["message"]["id"]


@pytest.mark.operation("POST /v1/agents/messages/search")
def test_system_prompts_are_listed_and_not_searched(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    word = unique("lynx").replace("-", "")
    agent = new_agent(memory_blocks=[{"label": "human", "value": f"Has a {word}."}])

    def found(**body: Any) -> Any:
        body = {"agent_id": agent.id, "roles": ["system"], **body}
        return http.post("/v1/agents/messages/search", json=body).json()

    [prompt] = found()
    assert word in prompt["embedded_text"]
    for mode in ("fts", "hybrid", "vector"):
        assert found(query=word, search_mode=mode) == []
        assert found(query=word, search_mode=mode, roles=None) == []


@pytest.mark.operation("GET /v1/tags/")
def test_tags_are_those_of_agents_and_blocks_each_once(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    mark = unique("tag")
    agent = new_agent(tags=[f"{mark}-b", f"{mark}-A"])
    new_agent(tags=[f"{mark}-b"])
    block = letta.blocks.create(label="human", value="", tags=[f"{mark}-c", f"{mark}-b"])

    def tags(**query: Any) -> list[str]:
        return [tag for tag in letta.tags.list(**query) if tag.startswith(mark)]

    assert tags(name=mark) == [f"{mark}-A", f"{mark}-b", f"{mark}-c"]
    assert tags(query_text=mark.upper(), order="desc", limit=2) == [f"{mark}-c", f"{mark}-b"]
    assert tags(name=mark, after=f"{mark}-A", limit=1) == [f"{mark}-b"]
    assert tags(name=mark, before=f"{mark}-b") == [f"{mark}-A"]
    assert tags(name=mark, after=f"{mark}-c") == []
    assert tags(name=unique("nobody")) == []
    letta.agents.update(agent.id, tags=[f"{mark}-d"])
    letta.blocks.delete(block.id)
    assert tags(name=mark) == [f"{mark}-b", f"{mark}-d"]
    letta.agents.delete(agent.id)
    assert tags(name=mark) == [f"{mark}-b"]


@pytest.mark.operation("GET /v1/agents/")
@pytest.mark.operation("GET /v1/agents/count")
def test_hidden_agents_are_listed_only_where_they_are_asked_for(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("hidden")
    agent = new_agent(name=name, hidden=True)
    assert letta.agents.retrieve(agent.id).hidden is True

    def listed(**query: Any) -> list[str]:
        return [
            agent["id"] for agent in http.get("/v1/agents/", params={"name": name, **query}).json()
        ]

    def count(**query: Any) -> int:
        return int(http.get("/v1/agents/count", params={"name": name, **query}).text)

    assert (listed(), count()) == ([], 0)
    assert (listed(show_hidden_agents=True), count(show_hidden_agents=True)) == ([agent.id], 1)
    letta.agents.update(agent.id, hidden=False)
    assert (listed(), count()) == ([agent.id], 1)
