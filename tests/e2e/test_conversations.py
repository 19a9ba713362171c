"""Conversations of an agent, through the real SDK: made, listed, changed, forked and deleted."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import BadRequestError, Letta, NotFoundError, UnprocessableEntityError
from letta_client.types import Conversation

from tests.e2e.asking import MODEL, NOBODY, TIMESTAMP, USER, history, is_id, say, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.unit.letta import recordings
from tests.waiting import wait_for

NOT_THERE = f"conv-{NOBODY}"
CREATE = pytest.mark.operation("POST /v1/conversations/")
RETRIEVE = pytest.mark.operation("GET /v1/conversations/{conversation_id}")
LIST = pytest.mark.operation("GET /v1/conversations/")
UPDATE = pytest.mark.operation("PATCH /v1/conversations/{conversation_id}")
DELETE = pytest.mark.operation("DELETE /v1/conversations/{conversation_id}")
FORK = pytest.mark.operation("POST /v1/conversations/{conversation_id}/fork")
RECOMPILE = pytest.mark.operation("POST /v1/conversations/{conversation_id}/recompile")


def isolated(letta: Letta, agent_id: str, *labels: str) -> Conversation:
    return letta.conversations.create(
        agent_id=agent_id, extra_body={"isolated_block_labels": [*labels]}
    )


def own_copies(http: httpx.Client, conversation_id: str) -> list[str]:
    """The ids of the blocks that a conversation has of its own."""
    conversation = http.get(f"/v1/conversations/{conversation_id}").json()
    return [*conversation["isolated_block_ids"]]


def is_gone(http: httpx.Client, path: str) -> bool:
    return http.get(path).status_code == 404


@CREATE
@RETRIEVE
@LIST
def test_a_conversation_is_read_back_as_it_was_made(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    made = letta.conversations.create(
        agent_id=agent.id,
        summary="About tea",
        description="All that is known of tea",
        model=MODEL,
        model_settings={"provider_type": "openai", "temperature": 0.25},
        context_window_limit=9_000,
    )

    assert is_id("conv", made.id)
    assert (made.agent_id, made.summary, made.model) == (agent.id, "About tea", MODEL)
    assert made.description == "All that is known of tea"
    assert made.context_window_limit == 9_000
    settings: Any = made.api_model_settings
    assert (settings.provider_type, settings.temperature) == ("openai", 0.25)
    assert made.created_by_id == made.last_updated_by_id == USER
    assert made.in_context_message_ids == []
    assert made.last_message_at is None
    read = letta.conversations.retrieve(made.id)
    assert read.model_copy(update={"in_context_message_ids": []}) == made
    assert letta.conversations.list(agent_id=agent.id) == [made]
    raw = http.get(f"/v1/conversations/{made.id}").json()
    assert TIMESTAMP.fullmatch(raw["created_at"])
    assert raw["isolated_block_ids"] == []
    assert "max_output_tokens" not in raw["model_settings"]


@CREATE
@RETRIEVE
@LIST
@pytest.mark.parametrize("name", ["create", "list", "retrieve"])
def test_a_conversation_has_the_recorded_shape(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, name: str
) -> None:
    agent = new_agent()
    made = http.post(f"/v1/conversations/?agent_id={agent.id}", json={}).json()
    if name == "retrieve":
        say(letta, made["id"], "Hello")
    answers = {
        "create": made,
        "list": http.get(f"/v1/conversations/?agent_id={agent.id}").json()[0],
        "retrieve": http.get(f"/v1/conversations/{made['id']}").json(),
    }
    body: Any = recordings.body(f"conversation_{name}")
    expected = body[0] if name == "list" else body
    ours = {field: type(value) for field, value in answers[name].items()}
    assert ours == {field: type(value) for field, value in expected.items()}
    assert bool(answers[name]["in_context_message_ids"]) == (name == "retrieve")


@CREATE
@RETRIEVE
@pytest.mark.operation("GET /v1/conversations/{conversation_id}/messages")
def test_a_conversation_begins_with_a_system_message_of_the_memory_at_that_time(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    before = letta.conversations.create(agent_id=agent.id)
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Grace")
    after = letta.conversations.create(agent_id=agent.id)

    for conversation, name in ((before, "Name: Ada"), (after, "Name: Grace")):
        [system] = letta.conversations.messages.list(conversation.id).items
        assert system.message_type == "system_message"
        assert name in system.content
        assert f"CONVERSATION_ID: {conversation.id}" in system.content
        read = letta.conversations.retrieve(conversation.id)
        assert read.in_context_message_ids == [system.id]
        assert read.last_message_at is None
    say(letta, before.id, "Hello")
    first, *_ = letta.conversations.messages.list(before.id, order="asc").items
    assert first.message_type == "system_message"
    assert "Name: Grace" in first.content, "it is compiled anew when its memory has changed"


@CREATE
def test_what_cannot_be_a_conversation_is_refused(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    with pytest.raises(NotFoundError, match=f"Agent with ID agent-{NOBODY} not found"):
        letta.conversations.create(agent_id=f"agent-{NOBODY}")
    with pytest.raises(UnprocessableEntityError):
        letta.conversations.create(agent_id="agent-1")
    with pytest.raises(NotFoundError, match="Handle openai/nothing not found"):
        letta.conversations.create(agent_id=agent.id, model="openai/nothing")
    with pytest.raises(BadRequestError, match="provider/model-name"):
        letta.conversations.create(agent_id=agent.id, model="nothing")
    with pytest.raises(BadRequestError, match="'pets' not found on agent"):
        isolated(letta, agent.id, "human", "pets")
    with pytest.raises(UnprocessableEntityError, match="context_window_limit"):
        letta.conversations.create(agent_id=agent.id, context_window_limit=0)
    assert http.post("/v1/conversations/", json={}).status_code == 422
    assert letta.conversations.list(agent_id=agent.id) == []


@CREATE
def test_a_key_makes_one_conversation_however_often_it_comes(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    key = {"Idempotency-Key": unique("key")}
    path = f"/v1/conversations/?agent_id={agent.id}"
    asked = {"summary": "Once", "isolated_block_labels": ["human"]}
    made = [http.post(path, json=asked, headers=key).json() for _ in range(3)]
    assert made[0] == made[1] == made[2]
    assert len(letta.conversations.list(agent_id=agent.id)) == 1
    other = http.post(path, json={"summary": "Twice"}, headers=key)
    assert (other.status_code, "Idempotency-Key" in other.text) == (409, True)


@LIST
@UPDATE
def test_lists_are_filtered_ordered_and_paged(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    make = letta.conversations.create
    first, second, third = [make(agent_id=agent.id, summary=f"Tea {n}") for n in range(3)]
    secret = make(agent_id=agent.id, summary="Tea 3", hidden=True)
    say(letta, second.id, "Hello")
    say(letta, first.id, "Hello")
    letta.conversations.update(third.id, archived=True)

    def listed(**fields: Any) -> list[str]:
        return [
            conversation.id
            for conversation in letta.conversations.list(agent_id=agent.id, **fields)
        ]

    assert listed() == [second.id, first.id]
    assert listed(order="asc") == [first.id, second.id]
    assert listed(archive_status="archived") == [third.id]
    assert listed(archive_status="all") == [third.id, second.id, first.id]
    assert listed(archive_status="all", order_by="last_message_at") == [
        first.id, second.id, third.id
    ]  # fmt: skip
    assert listed(archive_status="all", order_by="last_run_completion")[:2] == [
        first.id, second.id
    ]  # fmt: skip
    assert listed(archive_status="all", limit=2, after=third.id) == [second.id, first.id]
    assert listed(after=first.id) == []
    assert listed(summary_search="tea 1") == [second.id]
    assert listed(summary_search="coffee") == []
    assert letta.conversations.retrieve(secret.id).summary == "Tea 3"
    assert letta.conversations.list(agent_id=f"agent-{NOBODY}") == []
    with pytest.raises(BadRequestError, match="names nothing in this list"):
        listed(after=NOT_THERE)


@UPDATE
def test_a_change_changes_what_it_names_and_null_changes_nothing(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    made = letta.conversations.create(agent_id=agent.id, summary="Tea", model=MODEL)

    archived = letta.conversations.update(made.id, summary="Coffee", archived=True)
    assert (archived.summary, archived.archived, archived.model) == ("Coffee", True, MODEL)
    assert archived.archived_at is not None
    back = letta.conversations.update(
        made.id,
        archived=False,
        description="Hot",
        context_window_limit=5_000,
        last_message_at="2026-01-02T03:04:05Z",
        model_settings={"provider_type": "openai", "temperature": 0.5},
    )
    assert (back.archived, back.archived_at, back.summary) == (False, None, "Coffee")
    assert (back.description, back.context_window_limit) == ("Hot", 5_000)
    assert str(back.last_message_at) == "2026-01-02 03:04:05+00:00"
    assert back.updated_at is not None
    assert made.updated_at is not None
    assert back.updated_at > made.updated_at
    raw = http.patch(f"/v1/conversations/{made.id}", json={"summary": None, "model": None}).json()
    assert (raw["summary"], raw["model"]) == ("Coffee", MODEL)
    assert letta.conversations.retrieve(made.id) == back
    with pytest.raises(NotFoundError, match="Conversation with ID"):
        letta.conversations.update(NOT_THERE, summary="x")
    with pytest.raises(NotFoundError, match="Handle openai/nothing not found"):
        letta.conversations.update(made.id, model="openai/nothing")
    assert http.patch("/v1/conversations/default", json={}).status_code == 422
    assert letta.conversations.retrieve(made.id) == back


@UPDATE
async def test_runs_of_a_conversation_ask_its_own_model(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(
        agent_id=agent.id,
        model="openai/gpt-4o",
        model_settings={"provider_type": "openai", "temperature": 0.125},
    )
    word = unique("word")
    say(letta, conversation.id, word)
    [asked] = [
        request for request in await model.requests(last=5) if word in str(request["messages"])
    ]
    assert (asked["model"], asked["temperature"]) == ("gpt-4o", 0.125)

    letta.conversations.update(conversation.id, model=MODEL)
    word = unique("word")
    say(letta, conversation.id, word)
    [asked] = [
        request for request in await model.requests(last=5) if word in str(request["messages"])
    ]
    assert (asked["model"], asked["temperature"]) == ("gpt-4o-mini", 0.125)

    word = unique("word")
    letta.agents.messages.create(agent.id, messages=says(word))
    [asked] = [
        request for request in await model.requests(last=5) if word in str(request["messages"])
    ]
    assert asked["model"] == "gpt-4o-mini"
    assert asked["temperature"] != 0.125


@CREATE
@DELETE
async def test_isolated_blocks_are_read_and_written_by_their_conversation_alone(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    one = isolated(letta, agent.id, "human", "human")
    plain = letta.conversations.create(agent_id=agent.id)
    [copy_id] = own_copies(http, one.id)
    shared = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    copy = letta.blocks.retrieve(copy_id)
    assert copy_id != shared.id
    assert (copy.value, copy.label, copy.description) == ("Name: Ada", "human", shared.description)

    say(letta, one.id, 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}')
    assert letta.blocks.retrieve(copy_id).value == "Name: Ada\nLikes tea"
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada"
    say(letta, plain.id, 'CALL:memory_insert:{"label":"human","new_string":"Likes coffee"}')
    say(letta, one.id, 'CALL:memory_insert:{"label":"persona","new_string":"I am brief."}')
    assert letta.blocks.retrieve(copy_id).value == "Name: Ada\nLikes tea"

    own, others = say(letta, one.id, "SYSTEM?"), say(letta, plain.id, "SYSTEM?")
    assert "Likes tea" in own
    assert "Likes coffee" not in own
    assert "Likes coffee" in others
    assert "Likes tea" not in others
    assert "I am brief." in own
    assert "I am brief." in others
    assert f"CONVERSATION_ID: {one.id}" in own
    assert f"CONVERSATION_ID: {plain.id}" in others

    letta.conversations.delete(one.id)
    await wait_for("the copy is deleted", lambda: is_gone(http, f"/v1/blocks/{copy_id}"))
    assert "Likes coffee" in letta.agents.blocks.retrieve("human", agent_id=agent.id).value


@DELETE
def test_a_deleted_conversation_is_gone_with_all_that_was_in_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    kept = letta.conversations.create(agent_id=agent.id)
    say(letta, conversation.id, "Hello")
    say(letta, kept.id, "Hello")
    [run] = letta.runs.list(conversation_id=conversation.id).items

    assert letta.conversations.delete(conversation.id) is None

    path = f"/v1/conversations/{conversation.id}"
    body = {"messages": says("Hello")}
    for refused in (
        http.get(path),
        http.delete(path),
        http.patch(path, json={"summary": "x"}),
        http.get(f"{path}/messages"),
        http.post(f"{path}/messages", json=body),
        http.post(f"{path}/cancel"),
        http.post(f"{path}/fork"),
        http.post(f"{path}/recompile"),
        http.post(f"{path}/stream", json={}),
    ):
        assert refused.status_code == 404, refused.text
        assert refused.json() == {"detail": f"Conversation with ID {conversation.id} not found"}
    assert [conversation.id for conversation in letta.conversations.list(agent_id=agent.id)] == [
        kept.id
    ]
    assert letta.runs.list(conversation_id=conversation.id).items == []
    assert http.get(f"/v1/runs/{run.id}").status_code == 404
    assert history(letta, kept.id) == ["Hello", "Hello from the scripted model."]


@pytest.mark.operation("DELETE /v1/agents/{agent_id}")
async def test_conversations_go_with_their_agent(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    many = [letta.conversations.create(agent_id=agent.id).id for _ in range(40)]
    one = isolated(letta, agent.id, "human")
    [copy_id] = own_copies(http, one.id)
    say(letta, one.id, "Hello")

    letta.agents.delete(agent.id)

    assert letta.conversations.list(agent_id=agent.id) == []
    assert all(is_gone(http, f"/v1/conversations/{name}") for name in (*many, one.id))
    await wait_for("its runs are gone", lambda: not letta.runs.list(agent_id=agent.id).items)
    await wait_for("the copy is deleted", lambda: is_gone(http, f"/v1/blocks/{copy_id}"))


@FORK
def test_a_fork_goes_on_separately(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    source = letta.conversations.create(agent_id=agent.id, summary="Tea", model=MODEL)
    say(letta, source.id, 'CALL:conversation_search:{"query":"tea"} SAY:one')
    say(letta, source.id, "SAY:two")

    fork = letta.conversations.fork(source.id)

    assert fork.id != source.id
    assert (fork.agent_id, fork.model, fork.summary) == (agent.id, MODEL, None)
    listed = {
        conversation_id: letta.conversations.messages.list(conversation_id, order="asc").items
        for conversation_id in (source.id, fork.id)
    }
    kinds = {name: [message.message_type for message in items] for name, items in listed.items()}
    assert kinds[source.id] == kinds[fork.id]
    assert len(kinds[fork.id]) == 7
    ids = {name: {item.id for item in items} for name, items in listed.items()}
    assert not ids[source.id] & ids[fork.id]
    assert set(fork.in_context_message_ids or []) == ids[fork.id]

    assert say(letta, fork.id, "SAY:in the fork") == "in the fork"
    assert say(letta, source.id, "SAY:in the source") == "in the source"
    assert "in the source" not in str(history(letta, fork.id))
    assert "in the fork" not in str(history(letta, source.id))
    system = say(letta, fork.id, "SYSTEM?")
    assert f"CONVERSATION_ID: {fork.id}" in system

    letta.conversations.delete(source.id)
    assert "in the fork" in history(letta, fork.id)
    again = letta.conversations.fork(fork.id, hidden=True)
    assert history(letta, again.id) == history(letta, fork.id)
    assert again.id not in {
        conversation.id for conversation in letta.conversations.list(agent_id=agent.id)
    }


@FORK
def test_a_fork_may_begin_at_a_message_and_at_the_agents_own_conversation(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, messages=says("SAY:one"))
    letta.agents.messages.create(agent.id, messages=says("SAY:two"))
    messages = letta.agents.messages.list(agent.id).items
    first = next(message for message in messages if message.message_type == "assistant_message")

    half = letta.conversations.fork("default", agent_id=agent.id, message_id=first.id)
    whole = letta.conversations.fork(agent.id)

    assert history(letta, half.id) == ["SAY:one", "one"]
    assert history(letta, whole.id) == ["SAY:one", "one", "SAY:two", "two"]
    assert say(letta, half.id, "SAY:three") == "three"
    empty = letta.conversations.fork(letta.conversations.create(agent_id=agent.id).id)
    assert history(letta, empty.id) == []
    with pytest.raises(BadRequestError, match="is not in the context"):
        letta.conversations.fork(half.id, message_id=first.id)
    with pytest.raises(UnprocessableEntityError):
        letta.conversations.fork(half.id, message_id="first")
    with pytest.raises(UnprocessableEntityError, match="agent_id"):
        letta.conversations.fork("default")
    for nobody in (NOT_THERE, f"agent-{NOBODY}"):
        assert http.post(f"/v1/conversations/{nobody}/fork").status_code == 404


@FORK
def test_a_fork_has_copies_of_isolated_blocks(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    source = isolated(letta, agent.id, "human")
    say(letta, source.id, 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}')
    fork = letta.conversations.fork(source.id)
    [theirs] = own_copies(http, source.id)
    [ours] = own_copies(http, fork.id)
    assert letta.blocks.retrieve(ours).value == "Name: Ada\nLikes tea"
    say(letta, fork.id, 'CALL:memory_insert:{"label":"human","new_string":"And jam"}')
    assert letta.blocks.retrieve(ours).value == "Name: Ada\nLikes tea\nAnd jam"
    assert letta.blocks.retrieve(theirs).value == "Name: Ada\nLikes tea"


@RECOMPILE
def test_the_system_prompt_is_made_anew_or_only_shown(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    say(letta, conversation.id, "Hello")
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Grace")

    def system(conversation_id: str) -> str:
        [first, *_] = letta.conversations.messages.list(conversation_id, order="asc").items
        return str(first.content)  # type: ignore[union-attr]

    shown = letta.conversations.recompile(conversation.id, dry_run=True)
    assert "Name: Grace" in shown
    assert "Name: Ada" in system(conversation.id)
    made = json.loads(letta.conversations.recompile(conversation.id))  # the SDK leaves it as JSON
    assert "Name: Grace" in made
    assert f"CONVERSATION_ID: {conversation.id}" in made
    assert system(conversation.id) == made
    own = json.loads(letta.conversations.recompile("default", agent_id=agent.id))
    assert "CONVERSATION_ID: default" in own
    assert system(agent.id) == own
    fresh = letta.conversations.create(agent_id=agent.id)
    assert json.loads(letta.conversations.recompile(fresh.id)) == system(fresh.id)
    with pytest.raises(NotFoundError):
        letta.conversations.recompile(NOT_THERE)
    with pytest.raises(NotFoundError):
        letta.conversations.recompile("default", agent_id=f"agent-{NOBODY}")


@RETRIEVE
@pytest.mark.parametrize("name", ["conv-1", "default", "nothing", f"conv-{NOBODY}x", "conv-%00"])
def test_hopeless_ids_are_refused(http: httpx.Client, name: str) -> None:
    answer = http.get(f"/v1/conversations/{name}")
    assert answer.status_code == 422
    assert "conversation_id" in answer.json()["detail"]
