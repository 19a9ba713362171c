"""No agent finds what another has (MEM-20): the search as it is answered, from Postgres and in
memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from deploy.migrate import migrate_all
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Context, Rejected
from libs.contracts.memory.archives import SearchPassages
from libs.contracts.service_registry import names
from libs.embeddings.hash_embedder import MODEL, OneEmbedder, word_vector
from libs.embeddings.vector_encoding import packed
from libs.eventstore.commit_statement import commit_statement
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import AGENTS
from services.memory.adapters.archive_queries import ArchiveQueries, PostgresArchiveQueries
from services.memory.adapters.passage_search import PassageSearch, PostgresPassageSearch
from services.memory.handlers.passage_search import PassageSearchHandlers
from services.memory.projections.passages import passage_row
from services.memory.projections.tables import ARCHIVE_AGENTS, ARCHIVES, PASSAGES
from tests.contract.test_agent_queries import USUAL, at
from tests.contract.test_passage_search import START
from tests.servers import PostgresServer
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.passage_search import InMemoryPassageSearch

WORDS = [f"word{number}" for number in range(30)]
# Whose agents have which archives: their own, one that two share, and of another organisation one
# that is attached to an agent whose name they know.
ATTACHED = {
    ("org-1", "ada"): ["archive-ada", "archive-both"],
    ("org-1", "bob"): ["archive-bob", "archive-both"],
    ("org-1", "eve"): [],
    ("org-2", "zoe"): ["archive-zoe"],
    ("org-2", "ada"): ["archive-elsewhere"],
}


class Rows(Protocol):
    """Where rows are, and what reads them."""

    archives: ArchiveQueries
    search: PassageSearch

    async def write(self, service: str, rows: RowWrites) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.database = InMemoryDatabase(lambda: 0.0)
        self.archives: ArchiveQueries = InMemoryArchiveQueries(self.database)
        self.search: PassageSearch = InMemoryPassageSearch(self.database)

    async def write(self, service: str, rows: RowWrites) -> None:
        rows.apply(self.database.schema(service).tables)


class InPostgres:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.archives: ArchiveQueries = PostgresArchiveQueries(database)
        self.search: PassageSearch = PostgresPassageSearch(database)

    async def write(self, service: str, rows: RowWrites) -> None:
        await self.database.fetch(*commit_statement(service, "test", [Commit(rows=rows)]))


@pytest.fixture(params=["memory", "postgres"])
async def rows(request: pytest.FixtureRequest) -> AsyncIterator[Rows]:
    if request.param == "memory":
        yield InMemory()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database("agent_isolation")
    migrate_all(url, dict.fromkeys(names(), "secret"))
    async with open_pool(url) as pool:
        yield InPostgres(Database(pool))


async def populate(rows: Rows, dice: Random) -> None:
    """Agents, their archives, and passages that say whose archive they are in."""
    agents, written = RowWrites(), RowWrites()
    for (org, agent_id), attached in ATTACHED.items():
        if org == "org-1" or agent_id != "ada":
            row = {**USUAL[AGENTS], "id": agent_id, "org": org, "created_at": at(0)}
            agents.upsert(AGENTS, row)
        for archive in attached:
            common = {"org": org, "created_at": at(0), "version": 1}
            doc: Any = {"id": archive, "name": archive, "embedding_config": None}
            written.upsert(ARCHIVES, {"id": archive, "name": archive, "doc": doc, **common})
            link = {"archive_id": archive, "agent_id": agent_id, "org": org}
            id_ = f"{archive}-{agent_id}"
            written.upsert(ARCHIVE_AGENTS, {"id": id_, "attached_at": at(0), **link})
            for number in range(30):
                text = f"{archive} {' '.join(dice.sample(WORDS, 4))}"
                name = f"passage-{archive}-{number}"
                written.upsert(
                    PASSAGES,
                    passage_row(
                        name,
                        org,
                        collection_id=archive,
                        created_at=START,
                        version=1,
                        text=text,
                        tags=dice.sample(WORDS[:5], 2),
                        doc={"id": name, "text": text},
                        embedding_model=MODEL,
                        embedding=packed(word_vector(text, 128)),
                    ),
                )
    await rows.write("agent", agents)
    await rows.write("memory", written)


async def test_an_agent_finds_what_is_attached_to_it_whatever_it_asks_for(rows: Rows) -> None:
    dice, seen = Random(13), dict.fromkeys(ATTACHED, 0)
    await populate(rows, dice)
    ports: Any = SimpleNamespace(
        archives=rows.archives, passages=rows.search, embedders=OneEmbedder()
    )
    handlers = PassageSearchHandlers(ports)
    every = sorted({archive for attached in ATTACHED.values() for archive in attached})
    for number in range(400):
        org, agent_id = dice.choice([*ATTACHED])
        search = SearchPassages(
            asker=f"search-{number}",
            query=dice.choice(("", *every, *WORDS)),
            agent_id=agent_id,
            collection_ids=dice.sample(every, dice.choice((0, 0, 2))),
            tags=dice.sample(WORDS[:5], dice.choice((0, 0, 1))),
            limit=dice.choice((1, 5, 100)),
        )
        work: Any = SimpleNamespace(context=Context(f"m-{number}", org=org))
        reply = await handlers.search_passages(search, work)
        if isinstance(reply, Rejected):
            assert reply.code == NOT_FOUND
            assert not ATTACHED[org, agent_id]
            continue
        assert isinstance(reply, Accepted)
        passages: Any = reply.result["passages"]
        found = {one["doc"]["text"].split()[0] for one in passages}
        assert found <= {*ATTACHED[org, agent_id]}, (org, agent_id)
        seen[org, agent_id] += len(passages)
    assert all(count > 300 for who, count in seen.items() if ATTACHED[who]), seen
