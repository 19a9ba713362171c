"""Archives and passages on the twins: all or none, one archive, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import DEFAULT_ORG, NOT_FOUND, Accepted, Context, Rejected
from libs.contracts.memory.archives import (
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DeletePassages,
    InsertPassages,
    NewPassage,
    SearchPassages,
    own_archive_id,
)
from libs.embeddings.ports import EmbeddingUnavailable, Vector
from services.memory.domain import archive as archive_domain
from services.memory.domain.archive import SETTLED_SECONDS
from services.memory.handlers.archives import PASSAGES_REMOVED_AT_ONCE
from tests.contract.examples import AGENT
from tests.hash_embedder import HashEmbedder, OneEmbedder
from tests.unit.given import fact
from tests.unit.memory.memory_service import Memory

ARCHIVE = "archive-1"
OTHER = "agent-2"


def insert(*texts: str, **where: str) -> InsertPassages:
    passages = [NewPassage(id=f"passage-{text}", text=text) for text in texts]
    return InsertPassages(passages=passages, **where)


async def started(embedder: HashEmbedder | None = None) -> Memory:
    memory = await Memory(OneEmbedder(embedder)).start()
    memory.attach(AGENT)
    memory.attach(OTHER)
    return memory


async def found(memory: Memory, agent_id: str, query: str) -> list[str]:
    search = SearchPassages(asker=f"search-{query}", query=query, agent_id=agent_id, limit=100)
    reply = await memory.ask(search, f"m-{query}-{agent_id}")
    assert isinstance(reply, Accepted), reply
    passages: Any = reply.result["passages"]
    return [passage["fields"]["text"] for passage in passages]


class SlowEmbedder(HashEmbedder):
    """Lets others go on while it embeds; `away` is no answer."""

    away = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        await asyncio.sleep(0)
        if self.away:
            raise EmbeddingUnavailable("The embedding model does not answer: try again")
        return await super().embed(texts)


async def test_fifty_first_inserts_at_once_make_one_archive() -> None:
    """MEM-14: an agent's own archive has an id that follows from the agent's."""
    memory = await started(SlowEmbedder())
    replies = await asyncio.gather(
        *(memory.ask(insert(f"fact {n}", agent_id=AGENT), f"m-{n}") for n in range(50))
    )
    assert {reply.result["archive_id"] for reply in replies if isinstance(reply, Accepted)} == {
        own_archive_id(AGENT)
    }
    assert memory.rows("archives").keys() == {own_archive_id(AGENT)}
    assert len(memory.rows("passages")) == 50


async def test_a_call_that_comes_again_makes_one_passage() -> None:
    """MEM-14: a retry after a crash."""
    memory = await started()
    first = await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    assert await memory.ask(insert("tea", agent_id=AGENT), "m-1") == first
    assert memory.rows("passages").keys() == {"passage-tea"}


async def test_the_passages_of_a_batch_are_in_its_order() -> None:
    memory = await started()
    texts = [f"step {n}" for n in range(40)]
    await memory.ask(insert(*texts, agent_id=AGENT), "m-1")
    rows = sorted(memory.rows("passages").values(), key=lambda row: (row["created_at"], row["id"]))
    assert [row["text"] for row in rows] == texts


async def test_while_the_model_is_away_nothing_is_saved_or_found() -> None:
    embedder = SlowEmbedder()
    memory = await started(embedder)
    await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    embedder.away = True
    search = SearchPassages(asker="search-1", query="tea", agent_id=AGENT)
    for command in (insert("milk", agent_id=AGENT), search):
        refused = await memory.ask(command, f"m-{command.topic}")
        assert isinstance(refused, Rejected)
        assert (refused.code, "does not answer" in refused.reason) == ("unavailable", True)
    assert memory.rows("passages").keys() == {"passage-tea"}
    embedder.away = False
    assert await found(memory, AGENT, "tea") == ["tea"]


async def test_passages_are_seen_by_whom_their_archive_is_attached_to() -> None:
    """MEM-32: and are deleted by nobody else."""
    memory = await started()
    await memory.ask(CreateArchive(archive_id=ARCHIVE, name="Shared"), "m-1")
    await memory.ask(insert("shared tea", archive_id=ARCHIVE), "m-2")
    await memory.ask(insert("own tea", agent_id=AGENT), "m-3")
    assert (await found(memory, AGENT, "tea"), await found(memory, OTHER, "tea")) == (
        ["own tea"],
        [],
    )
    await memory.ask(AttachArchive(archive_id=ARCHIVE, agent_id=OTHER), "m-4")
    assert await found(memory, OTHER, "shared") == ["shared tea"]
    foreign = DeletePassages(passage_ids=["passage-own tea"], agent_id=OTHER)
    refused = await memory.ask(foreign, "m-5")
    assert isinstance(refused, Rejected)
    assert refused.code == "not_found"
    elsewhere = Context("m-6", org="org-elsewhere")
    for command in (
        AttachArchive(archive_id=ARCHIVE, agent_id=AGENT),
        insert("x", archive_id=ARCHIVE),
        DeletePassages(passage_ids=["passage-own tea"], agent_id=AGENT),
        DeleteArchive(archive_id=ARCHIVE),
    ):
        refused = await memory.bus.request(command, elsewhere)
        assert isinstance(refused, Rejected), command
        assert refused.code == "not_found"


async def test_an_agent_and_an_archive_are_searched_for_what_is_of_both() -> None:
    memory = await started()
    await memory.ask(CreateArchive(archive_id=ARCHIVE, name="Shared"), "m-1")
    await memory.ask(insert("shared tea", archive_id=ARCHIVE), "m-2")
    await memory.ask(insert("own tea", agent_id=AGENT), "m-3")

    async def texts(number: int, agent_id: str) -> Any:
        search = SearchPassages(
            asker=f"s-{number}", query="tea", agent_id=agent_id, collection_ids=[ARCHIVE]
        )
        reply = await memory.ask(search, f"s-{number}")
        if isinstance(reply, Rejected):
            return reply.code
        passages: Any = reply.result["passages"]
        return [passage["fields"]["text"] for passage in passages]

    assert await texts(1, AGENT) == [], "it is not attached"
    await memory.ask(AttachArchive(archive_id=ARCHIVE, agent_id=AGENT), "m-4")
    assert await texts(2, AGENT) == ["shared tea"]
    assert await texts(3, "agent-9") == NOT_FOUND


async def test_a_search_answers_with_as_much_as_fits() -> None:
    memory = await started()
    for n in range(3):
        passages = [NewPassage(id=f"p-{n}-{m}", text="tea " + "x" * 90_000) for m in range(20)]
        await memory.ask(InsertPassages(passages=passages, agent_id=AGENT), f"m-{n}")
    assert 40 < len(await found(memory, AGENT, "tea")) < 50, "4 MiB"


async def test_who_works_for_another_stores_into_the_archive_that_it_was_given() -> None:
    """As `store_memories` of an agent for voice does: it has no archive of its own by then."""
    memory = await started()
    await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    own = own_archive_id(AGENT)
    await memory.ask(AttachArchive(archive_id=own, agent_id=OTHER), "m-2")
    await memory.ask(insert("coffee", agent_id=OTHER), "m-3")
    assert {row["collection_id"] for row in memory.rows("passages").values()} == {own}
    assert await found(memory, AGENT, "coffee") == ["coffee", "tea"]


async def test_a_deleted_archive_is_gone_at_once_and_empty_after_a_while() -> None:
    """In bounded batches, each a commit, and whoever dies in between, another goes on."""
    memory = await started()
    await memory.ask(CreateArchive(archive_id=ARCHIVE, name="Large"), "m-1")
    count = PASSAGES_REMOVED_AT_ONCE * 2 + 7
    for begin in range(0, count, 100):
        texts = [f"fact {n}" for n in range(begin, min(begin + 100, count))]
        await memory.ask(insert(*texts, archive_id=ARCHIVE), f"m-fill-{begin}")
    assert len(memory.rows("passages")) == count
    policies = memory.policies()
    await memory.ask(DeleteArchive(archive_id=ARCHIVE), "m-2")
    assert memory.rows("archives") == {}
    assert isinstance(await memory.ask(insert("late", archive_id=ARCHIVE), "m-3"), Rejected)

    await policies.archives.sweep()
    assert memory.rows("passages") == {}
    assert memory.rows("archive_removals").keys() == {ARCHIVE}, "one may still be on its way"
    memory.clock.seconds += SETTLED_SECONDS + 1
    await policies.archives.sweep()
    assert memory.rows("archive_removals") == {}
    topics = [event.topic for event in memory.schema.streams[ARCHIVE]]
    assert topics == ["archive.created", "archive.deleted", "archive.emptied"]


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_the_archive_of_a_deleted_agent_goes_unless_another_has_it(shared: bool) -> None:
    memory = await started()
    own = own_archive_id(AGENT)
    await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    if shared:
        await memory.ask(AttachArchive(archive_id=own, agent_id=OTHER), "m-2")
    policies = memory.policies()
    deleted = fact(AgentDeleted, own_block_ids=[]).at(AGENT, 2)
    await policies.agent_deleted(deleted, Context("e-0", org=DEFAULT_ORG))
    assert own in memory.rows("archives"), "an import has made the agent again meanwhile"
    rows = memory.database.schema("agent").tables["agents"]
    for key in [key for key, row in rows.items() if row["id"] == AGENT]:
        del rows[key]
    for _ in range(2):  # the log may tell it again
        await policies.agent_deleted(deleted, Context("e-1", org=DEFAULT_ORG))
        await policies.archives.sweep()
    assert (own in memory.rows("archives")) is shared
    assert {row["agent_id"] for row in memory.rows("archive_agents").values()} == (
        {OTHER} if shared else set()
    )
    assert len(memory.rows("passages")) == int(shared)


async def test_an_archive_that_a_deleted_agent_got_too_late_is_taken_from_it() -> None:
    memory = await started()
    await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    del memory.database.schema("agent").tables["agents"][(AGENT,)]
    await memory.policies().archives.sweep()
    assert memory.rows("archives") == {}
    assert memory.rows("archive_agents") == {}


async def test_an_agent_whose_own_archive_was_deleted_gets_another() -> None:
    memory = await started()
    await memory.ask(insert("tea", agent_id=AGENT), "m-1")
    await memory.ask(DeleteArchive(archive_id=own_archive_id(AGENT)), "m-2")
    reply = await memory.ask(insert("milk", agent_id=AGENT), "m-3")
    assert isinstance(reply, Accepted)
    assert reply.result["archive_id"] == own_archive_id(AGENT, 1)
    assert await found(memory, AGENT, "milk") == ["milk"]


async def test_two_agents_never_see_each_others_passages() -> None:
    """S03, MEM-20: whatever they ask for, by words, tags and times, a thousand times."""
    dice = Random(13)
    memory = await started()
    words = [f"word{n}" for n in range(30)]
    for agent_id in (AGENT, OTHER):
        for batch in range(4):
            passages = [
                NewPassage(
                    id=f"passage-{agent_id}-{batch}-{n}",
                    text=f"{agent_id} {' '.join(dice.sample(words, 4))}",
                    tags=dice.sample(words[:5], 2),
                )
                for n in range(50)
            ]
            reply = await memory.ask(
                InsertPassages(passages=passages, agent_id=agent_id), f"m-{agent_id}-{batch}"
            )
            assert isinstance(reply, Accepted)
    seen = 0
    for number in range(1_000):
        asking = dice.choice((AGENT, OTHER))
        search = SearchPassages(
            asker=f"search-{number}",
            query=dice.choice(("", AGENT, OTHER, *words)),
            agent_id=asking,
            tags=dice.sample(words[:5], dice.choice((0, 0, 1, 2))),
            tag_match=dice.choice(("any", "all")),
            limit=dice.choice((1, 5, 100)),
        )
        reply = await memory.ask(search, f"s-{number}")
        assert isinstance(reply, Accepted)
        passages: Any = reply.result["passages"]
        assert all(passage["fields"]["text"].startswith(asking) for passage in passages)
        seen += len(passages)
    assert seen > 5_000


async def test_an_organisation_has_a_bounded_number_of_archives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_domain, "ARCHIVES_MAX", 1)
    memory = await started()
    assert isinstance(
        await memory.ask(CreateArchive(archive_id="archive-1", name="a"), "m-1"), Accepted
    )
    for command in (CreateArchive(archive_id="archive-2", name="b"), insert("x", agent_id=AGENT)):
        refused = await memory.ask(command, f"m-{command.topic}")
        assert isinstance(refused, Rejected)
        assert "at most 1: delete some" in refused.reason
