"""Messages by their meaning on the in-memory store: embedded when somebody searches, no sooner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from libs.contracts.agent.conversations import ConversationDeleted
from libs.contracts.bus_messages import DEFAULT_ORG, UNAVAILABLE, Accepted, Context, Rejected
from libs.contracts.memory.semantic_message_search import NearestMessages
from libs.embeddings.ports import EmbeddingRefused, EmbeddingUnavailable, Vector
from services.memory.adapters.message_vectors import MessageScope
from services.memory.engine import message_embedding
from services.memory.engine.message_embedding import BATCH_TEXTS, TEXTS_OF_A_SEARCH_MAX
from tests.hash_embedder import HashEmbedder, OneEmbedder
from tests.unit.given import fact
from tests.unit.memory.memory_service import ADA, BOB, Memory, said

MANY = 3 * TEXTS_OF_A_SEARCH_MAX


class SometimesAway(HashEmbedder):
    """Embeds so many texts as are `left`."""

    left = 1_000_000
    problem: Exception = EmbeddingUnavailable("the model is away")

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.left < len(texts):
            raise self.problem
        self.left -= len(texts)
        return await super().embed(texts)


async def asked(memory: Memory, query: str, **fields: Any) -> Accepted | Rejected:
    command = NearestMessages(asker=f"search-{query}", query=query, **fields)
    return await memory.ask(command, f"m-{query}-{fields}")


async def found(memory: Memory, query: str, **fields: Any) -> list[str]:
    reply = await asked(memory, query, **fields)
    assert isinstance(reply, Accepted), reply
    messages: Any = reply.result["messages"]
    rows: Any = {row["id"]: row for row in memory.database.schema("agent").rows("messages")}
    return [rows[message["id"]]["text"] for message in messages]


async def started(embedder: HashEmbedder | None = None) -> Memory:
    return await Memory(OneEmbedder(embedder or SometimesAway())).start()


async def test_what_was_said_is_embedded_when_somebody_searches_and_once() -> None:
    embedder = SometimesAway()
    memory = await started(embedder)
    said(memory, "green tea", "a big dog", role="assistant")
    said(memory, "the result", role="tool")
    said(memory, "green tea for Bob", agent=BOB)
    await memory.message_embedding.sweep()
    assert embedder.texts == 0, "who does not search pays nothing"
    assert await found(memory, "green tea", agent_id=ADA) == ["green tea"]
    assert embedder.texts == 3, "the query, and what Ada said and was told"
    said(memory, "more green tea")
    assert await found(memory, "green tea", agent_id=ADA) == ["green tea", "more green tea"]
    assert embedder.texts == 5
    assert await found(memory, "green tea", agent_id=ADA, roles=["user"]) == ["more green tea"]


async def test_nobody_finds_what_others_said() -> None:
    memory = await started()
    said(memory, "green tea")
    said(memory, "green tea for Bob", agent=BOB)
    said(memory, "green tea elsewhere", org="org-2")
    assert await found(memory, "green tea", agent_id=ADA) == ["green tea"]
    assert await found(memory, "green tea") == ["green tea", "green tea for Bob"]
    conversation = "conv-of-agent-bob"
    assert await found(memory, "green tea", conversation_id=conversation) == ["green tea for Bob"]
    assert await found(memory, "green tea", conversation_id=conversation, agent_id=ADA) == []


async def test_a_long_history_is_embedded_in_the_background_the_newest_first() -> None:
    memory = await started()
    said(memory, "zebra", *("green tea" for _ in range(MANY)), "big dog")
    assert await found(memory, "big dog", agent_id=ADA) == ["big dog"]
    assert await found(memory, "zebra", agent_id=ADA) == []
    assert [*memory.vectors.waiting] == [MessageScope(DEFAULT_ORG, ADA)]
    await memory.message_embedding.sweep()
    assert not memory.vectors.waiting
    assert await found(memory, "zebra", agent_id=ADA) == ["zebra"]


async def test_no_organisation_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_embedding, "ROUNDS_OF_A_SWEEP_MAX", 2)
    memory = await started()
    said(memory, *(f"word{n} tea" for n in range(MANY)))
    said(memory, *("few words" for _ in range(BATCH_TEXTS)), org="org-2")
    for scope in (MessageScope(DEFAULT_ORG), MessageScope("org-2")):
        await memory.vectors.put_off(scope)
    await memory.message_embedding.sweep()
    assert [*memory.vectors.waiting] == [MessageScope(DEFAULT_ORG)]
    assert len(memory.vectors.vectors) == 3 * BATCH_TEXTS


async def test_a_model_that_is_away_is_asked_again_and_one_that_refuses_is_not() -> None:
    embedder = SometimesAway()
    memory = await started(embedder)
    said(memory, *("green tea" for _ in range(MANY)))
    embedder.left = 1
    assert await found(memory, "green tea", agent_id=ADA) == [], "but the words are found elsewhere"
    await memory.message_embedding.sweep()
    assert memory.vectors.waiting, "nothing is forgotten"
    refused = await asked(memory, "green", agent_id=ADA)
    assert isinstance(refused, Rejected)
    assert refused.code == UNAVAILABLE
    embedder.problem = EmbeddingRefused("not installed")
    await memory.message_embedding.sweep()
    assert not memory.vectors.waiting


async def test_vectors_go_with_their_conversation() -> None:
    memory = await started()
    said(memory, "green tea")
    await found(memory, "green tea", agent_id=ADA)
    memory.database.schema("agent").tables["messages"].clear()
    event = fact(ConversationDeleted, agent_id=ADA).at("conv-of-agent-ada", 1)
    await memory.policies().conversation_deleted(event, Context("m-1"))
    assert memory.vectors.vectors
    await memory.message_embedding.sweep()
    assert not memory.vectors.vectors
    assert memory.vectors.forgotten, "what was embedded meanwhile may still come"
    await memory.clock.sleep(message_embedding.SETTLED_SECONDS + 1)
    await memory.message_embedding.sweep()
    assert not memory.vectors.forgotten


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"query": " "}, "`query` is empty"), ({"query": "a", "limit": 101}, "`limit` must be 1 to")],
    ids=["blank", "many"],
)
async def test_a_search_that_cannot_be_says_why(fields: Any, words: str) -> None:
    memory = await started()
    refused = await memory.ask(NearestMessages(asker="search-1", **fields), "m-1")
    assert isinstance(refused, Rejected)
    assert words in refused.reason
