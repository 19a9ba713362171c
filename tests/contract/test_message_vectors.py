"""What is nearest among messages, and what is left to embed, on Postgres and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import AGENTS, CONVERSATIONS, MESSAGES
from services.memory.adapters.message_vectors import (
    MessageScope,
    NearestQuery,
)
from tests.contract.read_models import ADA, ORG, START, Rows
from tests.hash_embedder import MODEL, word_vector

BOB = "agent-bob"
BESIDE = "conv-beside"


def message(number: int, text: str, agent: str = ADA, **fields: Any) -> JsonObject:
    return {
        "id": f"message-{number}",
        "org": ORG,
        "agent_id": agent,
        "conversation_id": main_conversation(agent),
        "position": number,
        "role": "user",
        "created_at": (START + timedelta(days=number)).isoformat(),
        "sent": True,
        "in_context": True,
        "recorded_at": START.isoformat(),
        "text": text,
        "v1_messages": [],
        **fields,
    }


async def told(rows: Rows) -> None:
    """Two agents of an organisation, and one of another."""
    writes = RowWrites()
    at = START.isoformat()
    for agent, org in ((ADA, ORG), (BOB, ORG), ("agent-else", "org-2")):
        plain: JsonObject = {"id": agent, "org": org, "created_at": at, "updated_at": at}
        lists: JsonObject = {"block_ids": [], "tags": [], "tools": []}
        fields: JsonObject = {"project_id": f"project-of-{agent}"}
        names: JsonObject = {"name": agent, "conversation_id": main_conversation(agent)}
        writes.upsert(AGENTS, {**plain, **lists, **names, "fields": fields, "body": ""})
    beside: JsonObject = {"id": BESIDE, "org": ORG, "agent_id": ADA, "created_at": at}
    more: JsonObject = {"archived": False, "hidden": False, "isolated_blocks": {}, "fields": {}}
    writes.upsert(CONVERSATIONS, {**beside, "last_message_at": None, **more})
    for row in (
        message(1, "green tea"),
        message(2, "green tea with milk", role="assistant"),
        message(3, "the result of a tool", role="tool"),
        message(4, "a green frog", conversation_id=BESIDE),
        message(5, "green tea for Bob", BOB),
        message(6, "green tea of others", "agent-else", org="org-2"),
        message(7, ""),
    ):
        writes.upsert(MESSAGES, row)
    await rows.write("agent", writes)


async def embedded(rows: Rows, scope: MessageScope, limit: int = 100) -> list[str]:
    """Embed what is left of a scope; returns which messages."""
    left = await rows.vectors.unembedded_messages(scope, MODEL, limit)
    vectors = {message_id: word_vector(text, 128) for message_id, text in left}
    await rows.vectors.keep(scope, MODEL, vectors)
    return [text.removeprefix("message-") for text, _ in left]


async def near(rows: Rows, scope: MessageScope, **fields: Any) -> list[str]:
    vector = word_vector("green tea", 128)
    query = {"scope": scope, "model": MODEL, "vector": vector, "similarity_min": 0.1, **fields}
    found = await rows.vectors.nearest(NearestQuery(**query))
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    return [text.removeprefix("message-") for text, _ in found]


ALL, OF_ADA, OF_BESIDE = MessageScope(ORG), MessageScope(ORG, ADA), MessageScope(ORG, "", BESIDE)


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (ALL, ["5", "4", "2", "1"]),
        (OF_ADA, ["4", "2", "1"]),
        (OF_BESIDE, ["4"]),
        (MessageScope(ORG, BOB, BESIDE), []),
        (MessageScope("org-2", ADA), []),
    ],
    ids=["organisation", "agent", "conversation", "another's", "elsewhere"],
)
async def test_what_is_left_of_a_scope_is_embedded_the_newest_first_and_once(
    rows: Rows, scope: MessageScope, left: Sequence[str]
) -> None:
    await told(rows)
    assert await embedded(rows, scope, 1) == left[:1]
    assert await embedded(rows, scope) == left[1:]
    assert await embedded(rows, scope) == []
    if scope == OF_ADA:
        assert await embedded(rows, ALL) == ["5"], "of all the rest"


async def test_a_search_finds_what_is_near_of_whom_it_is_about(rows: Rows) -> None:
    await told(rows)
    await embedded(rows, ALL)
    await embedded(rows, MessageScope("org-2"))
    assert set(await near(rows, ALL)) == {"1", "2", "4", "5"}
    assert set(await near(rows, OF_ADA)) == {"1", "2", "4"}
    assert await near(rows, OF_BESIDE) == ["4"]
    assert await near(rows, MessageScope("org-2")) == ["6"]
    assert await near(rows, MessageScope(ORG, BOB, BESIDE)) == []
    assert await near(rows, OF_ADA, roles=["assistant"]) == ["2"]
    assert await near(rows, OF_ADA, after=START + timedelta(days=3)) == ["4"]
    assert set(await near(rows, OF_ADA, before=START + timedelta(days=2))) == {"1", "2"}
    assert await near(rows, ALL, limit=1) == ["1"]
    assert await near(rows, ALL, similarity_min=0.99) == ["1"]
    assert await near(rows, ALL, model="another") == []


async def test_messages_that_are_gone_are_not_kept_and_what_was_goes_bit_by_bit(
    rows: Rows,
) -> None:
    await told(rows)
    await embedded(rows, ALL)
    writes = RowWrites()
    writes.delete(MESSAGES, "conversation_id", main_conversation(ADA))
    await rows.write("agent", writes)
    await rows.vectors.keep(ALL, MODEL, {"message-never": word_vector("green tea", 128)})
    await rows.vectors.forget(ORG, main_conversation(ADA))
    await rows.vectors.forget(ORG, main_conversation(ADA))
    assert await rows.vectors.remove_forgotten(60.0)
    assert not await rows.vectors.remove_forgotten(60.0)
    assert set(await near(rows, ALL)) == {"4", "5"}
    assert not await rows.vectors.remove_forgotten(0.0)


async def test_histories_wait_their_turn_and_each_organisation_has_one(rows: Rows) -> None:
    scopes = [OF_ADA, MessageScope(ORG, BOB), MessageScope("org-2")]
    for scope in (*scopes, OF_ADA):
        await rows.vectors.put_off(scope)
    first = await rows.vectors.backlog()
    assert {backlog.scope for backlog in first} == {OF_ADA, MessageScope("org-2")}
    for backlog in first:
        await rows.vectors.worked_on(backlog, done=backlog.scope.org == "org-2")
    [second] = await rows.vectors.backlog()
    assert second.scope == MessageScope(ORG, BOB)
    await rows.vectors.worked_on(second, done=True)
    [third] = await rows.vectors.backlog()
    assert third.scope == OF_ADA
    await rows.vectors.worked_on(third, done=True)
    assert await rows.vectors.backlog() == []
