"""An archive gets another embedding model: bit by bit, and nothing twice (MEM-15)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from libs.bus.in_memory import InMemoryBus
from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import DEFAULT_ORG, Accepted, Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import (
    CreateArchive,
    DeletePassages,
    InsertPassages,
    NewPassage,
    SearchPassages,
)
from libs.contracts.memory.reembedding import ChangeArchiveEmbedding, ReembedPassages
from libs.embeddings.ports import Embedder, EmbeddingRefused, EmbeddingUnavailable, Vector
from libs.eventstore.event_decoding import event_of
from libs.eventstore.read_model_rows import RowWrites
from services.memory.handlers import reembedding
from services.memory.projections import project
from tests.hash_embedder import MODEL, HashEmbedder
from tests.unit.memory.memory_service import Memory

ARCHIVE = "archive-1"
OTHER = EmbeddingConfig(
    embedding_endpoint_type="openai",
    embedding_model="other",
    embedding_dim=32,
    handle="other/words",
)
TEXTS = [f"fact{n} about mountains" for n in range(10)]


class Away(HashEmbedder):
    """A model that may not answer, or never will."""

    away = False
    refused = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.away:
            raise EmbeddingUnavailable("the model is away: try again")
        if self.refused:
            raise EmbeddingRefused("the key is wrong")
        return await super().embed(texts)


class Both:
    """Keeps the contract of `Embedders`: the default, and another of other vectors."""

    def __init__(self) -> None:
        self.old = Away()
        self.new = Away("other/words", 32)

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        return self.new if config else self.old


async def begun(embedders: Both) -> Memory:
    memory = await Memory(embedders).start()
    await memory.ask(CreateArchive(archive_id=ARCHIVE, name="Facts"), "m-1")
    passages = [NewPassage(id=f"passage-{n}", text=text) for n, text in enumerate(TEXTS)]
    await memory.ask(InsertPassages(archive_id=ARCHIVE, passages=passages), "m-2")
    return memory


def models(memory: Memory) -> list[str]:
    rows = memory.rows("passages")
    return [rows[f"passage-{n}"]["embedding_model"] for n in range(len(TEXTS))]


async def found(memory: Memory, query: str) -> set[str]:
    search = SearchPassages(asker=f"search-{query}", query=query, collection_ids=[ARCHIVE])
    reply = await memory.ask(search, f"m-{query}")
    assert isinstance(reply, Accepted), reply
    passages: Any = reply.result["passages"]
    return {passage["fields"]["text"] for passage in passages}


async def test_after_a_crash_it_goes_on_where_it_was_and_searches_find_everything_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reembedding, "PASSAGES_REEMBEDDED_AT_ONCE", 3)
    embedders = Both()
    memory = await begun(embedders)
    change = ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER)
    assert isinstance(await memory.ask(change, "m-3"), Accepted)
    assert isinstance(await memory.ask(change, "m-4"), Accepted), "twice is once"
    assert len(memory.rows("archive_reembeddings")) == 1
    step = ReembedPassages(archive_id=ARCHIVE)
    assert await memory.ask(step, "m-5") == Accepted(result={"embedded": 3})
    embedders.new.away = True  # as is whoever did it
    refused = await memory.ask(step, "m-6")
    assert isinstance(refused, Rejected)
    assert "try again" in refused.reason
    assert models(memory) == ["other/words"] * 3 + [MODEL] * 7, "what is done stays done"

    embedders.new.away = False
    assert await found(memory, "mountains") == {*TEXTS}, "by the old vector or the new one"
    embedders.old.away = True
    assert {*TEXTS[:3]} <= await found(memory, "about mountains"), "the old model may be gone"
    deleted = DeletePassages(archive_id=ARCHIVE, passage_ids=["passage-9"])
    assert isinstance(await memory.ask(deleted, "m-7"), Accepted)

    embedders.new.texts = 0
    await memory.policies().reembedding.sweep()
    assert embedders.new.texts == 6, "nothing is embedded twice"
    assert {row["embedding_model"] for row in memory.rows("passages").values()} == {"other/words"}
    assert memory.rows("archive_reembeddings") == {}
    archive = memory.rows("archives")[ARCHIVE]
    assert archive["fields"]["embedding_config"]["handle"] == "other/words"
    await memory.policies().reembedding.sweep()
    assert await found(memory, "the mountains") == {*TEXTS[:9]}


async def test_a_model_that_does_not_answer_is_not_chosen() -> None:
    embedders = Both()
    memory = await begun(embedders)
    embedders.new.away = True
    change = ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER)
    assert isinstance(await memory.ask(change, "m-3"), Rejected)
    assert memory.rows("archive_reembeddings") == {}
    missing = ChangeArchiveEmbedding(archive_id="archive-2")
    assert isinstance(await memory.ask(missing, "m-4"), Rejected)


async def test_rows_are_made_again_from_events_and_nothing_is_embedded() -> None:
    embedders = Both()
    memory = await begun(embedders)
    await memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER), "m-3")
    await memory.policies().reembedding.sweep()
    before, calls = memory.rows("passages"), (embedders.old.calls, embedders.new.calls)
    tables: Any = {}
    for stored in memory.schema.committed:
        rows = RowWrites()
        project(event_of("memory", stored), DEFAULT_ORG, rows)
        rows.apply(tables)
    assert {row["id"]: row for row in tables["passages"].values()} == before
    assert (embedders.old.calls, embedders.new.calls) == calls


class Changing(Away):
    """A model during whose answers something happens, once."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors = await super().embed(texts)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            await meanwhile()
        return vectors


async def test_what_is_put_in_while_the_model_changes_has_a_vector_of_the_new_one() -> None:
    embedders = Both()
    embedders.old = slow = Changing()
    memory = await begun(embedders)

    async def changed() -> None:
        await memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER), "m-3")
        await memory.policies().reembedding.sweep()
        assert memory.rows("archive_reembeddings") == {}

    slow.meanwhile = changed
    late = NewPassage(id="passage-late", text="the latest fact")
    reply = await memory.ask(InsertPassages(archive_id=ARCHIVE, passages=[late]), "m-4")
    assert isinstance(reply, Accepted)
    assert {row["embedding_model"] for row in memory.rows("passages").values()} == {"other/words"}


async def test_a_model_that_is_changed_again_meanwhile_is_gone_on_with() -> None:
    embedders = Both()
    embedders.new = slow = Changing("other/words", 32)
    memory = await begun(embedders)
    await memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER), "m-3")
    slow.meanwhile = lambda: memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE), "m-4")
    await memory.ask(ReembedPassages(archive_id=ARCHIVE), "m-5")
    assert {*models(memory)} == {MODEL}, "the answer of the model that it had is of no use"
    await memory.policies().reembedding.sweep()
    assert memory.rows("archive_reembeddings") == {}
    assert {*models(memory)} == {MODEL}


async def test_an_archive_whose_model_cannot_be_used_is_searched_for_the_words_with_others() -> (
    None
):
    embedders = Both()
    memory = await begun(embedders)
    await memory.ask(CreateArchive(archive_id="archive-2", name="B", embedding_config=OTHER), "m-3")
    other = NewPassage(id="passage-b", text="mountains of another archive")
    await memory.ask(InsertPassages(archive_id="archive-2", passages=[other]), "m-4")
    embedders.new.refused = True
    alone = SearchPassages(asker="s-1", query="mountains", collection_ids=["archive-2"])
    assert isinstance(await memory.ask(alone, "m-5"), Rejected)
    both = SearchPassages(asker="s-2", query="mountains", collection_ids=[ARCHIVE, "archive-2"])
    reply = await memory.ask(both, "m-6")
    assert isinstance(reply, Accepted), reply
    passages: Any = reply.result["passages"]
    assert {passage["fields"]["text"] for passage in passages} >= {*TEXTS}


async def test_vectors_of_one_model_in_two_lengths_are_found_by_both() -> None:
    embedders = Both()
    embedders.new = Away(MODEL, 32)
    memory = await begun(embedders)
    await memory.ask(CreateArchive(archive_id="archive-2", name="B", embedding_config=OTHER), "m-3")
    other = NewPassage(id="passage-b", text="fact7 of another archive")
    await memory.ask(InsertPassages(archive_id="archive-2", passages=[other]), "m-4")
    embedders.old.texts = embedders.new.texts = 0
    both = SearchPassages(asker="s-1", query="fact7", collection_ids=[ARCHIVE, "archive-2"])
    assert isinstance(await memory.ask(both, "m-5"), Accepted)
    assert (embedders.old.texts, embedders.new.texts) == (1, 1), "the query is embedded in both"


async def test_what_is_refused_leaves_room_for_what_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that does not answer takes seconds to say so, each time that it is asked."""
    embedders = Both()
    memory = await begun(embedders)
    for n in range(2, 5):
        await memory.ask(CreateArchive(archive_id=f"archive-{n}", name="B"), f"c-{n}")
        text = NewPassage(id=f"passage-of-{n}", text="mountains")
        await memory.ask(InsertPassages(archive_id=f"archive-{n}", passages=[text]), f"i-{n}")
        change = ChangeArchiveEmbedding(archive_id=f"archive-{n}", embedding_config=OTHER)
        await memory.ask(change, f"e-{n}")
    embedders.new.away = True
    policies, asked = memory.policies().reembedding, []
    reembed = policies.reembed

    async def watched(collection_id: str, org: str) -> None:
        asked.append(collection_id)
        await reembed(collection_id, org)

    monkeypatch.setattr(policies, "reembed", watched)
    for _ in range(4):
        await policies.sweep()
    assert sorted(asked) == ["archive-2", "archive-3", "archive-4"], "one in each sweep"
    memory.clock.seconds += 6
    await policies.sweep()
    assert asked[3] == asked[0], "in turn"
    memory.clock.seconds += 6
    await policies.sweep()
    assert asked[3:] == asked[:2], "the longer the more often it was refused"
    await memory.ask(ChangeArchiveEmbedding(archive_id="archive-3"), "e-5")
    embedders.new.away = False
    memory.clock.seconds += 60
    await policies.sweep()
    assert memory.rows("archive_reembeddings") == {}
    await policies.sweep()
    assert policies.backoffs == {}, "nothing is remembered of what is done"


async def test_an_archive_that_nobody_answers_for_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where an endpoint takes as long as a request may."""
    embedders = Both()
    memory = await begun(embedders)
    await memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER), "m-3")
    text = NewPassage(id="passage-b", text="mountains")
    await memory.ask(CreateArchive(archive_id="archive-2", name="B"), "m-4", org="org-2")
    await memory.ask(InsertPassages(archive_id="archive-2", passages=[text]), "m-5", org="org-2")
    change = ChangeArchiveEmbedding(archive_id="archive-2", embedding_config=OTHER)
    await memory.ask(change, "m-6", org="org-2")
    request, policies = InMemoryBus.request, memory.policies().reembedding

    async def silent(self: Any, command: Any, context: Any, **options: Any) -> Any:
        if command == ReembedPassages(archive_id=ARCHIVE):
            raise BusUnavailable("no answer")
        return await request(self, command, context, **options)

    monkeypatch.setattr(InMemoryBus, "request", silent)
    await policies.sweep()
    assert memory.rows("archive_reembeddings").keys() == {ARCHIVE}
