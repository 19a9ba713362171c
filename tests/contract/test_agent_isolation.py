"""No agent finds what another has (MEM-20): the search as it is answered, from Postgres and in
memory."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

from libs.contracts.bus_messages import NOT_FOUND, Accepted, Context, Rejected
from libs.contracts.memory.archives import SearchPassages
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import AGENTS
from services.memory.handlers.passage_search import PassageSearchHandlers
from services.memory.projections.passages import passage_row
from services.memory.projections.tables import ARCHIVE_AGENTS, ARCHIVES, PASSAGES
from tests.contract.read_models import START, USUAL, Rows, at
from tests.hash_embedder import MODEL, OneEmbedder, word_vector
from tests.unit.passage_search import passage_doc

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


async def populate(rows: Rows, dice: Random) -> None:
    """Agents, their archives, and passages that say whose archive they are in."""
    agents, written = RowWrites(), RowWrites()
    for (org, agent_id), attached in ATTACHED.items():
        if org == "org-1" or agent_id != "ada":
            row = {**USUAL[AGENTS], "id": agent_id, "org": org, "created_at": at(0)}
            agents.upsert(AGENTS, row)
        for archive in attached:
            common = {"org": org, "created_at": at(0), "version": 1}
            fields: Any = {"id": archive, "name": archive, "embedding_config": None}
            written.upsert(ARCHIVES, {"id": archive, "name": archive, "fields": fields, **common})
            link = {"archive_id": archive, "agent_id": agent_id, "org": org}
            id_ = f"{archive}-{agent_id}"
            written.upsert(ARCHIVE_AGENTS, {"id": id_, "attached_at": at(0), **link})
            for number in range(30):
                text = f"{archive} {' '.join(dice.sample(WORDS, 4))}"
                name = f"passage-{archive}-{number}"
                written.upsert(
                    PASSAGES,
                    passage_row(
                        passage_doc(name, text, archive, org=org, tags=dice.sample(WORDS[:5], 2)),
                        created_at=START,
                        version=1,
                        embedding_model=MODEL,
                        embedding=pack_vector(word_vector(text, 128)),
                    ),
                )
    await rows.write("agent", agents)
    await rows.write("memory", written)


async def test_an_agent_finds_what_is_attached_to_it_whatever_it_asks_for(rows: Rows) -> None:
    dice, seen = Random(13), dict.fromkeys(ATTACHED, 0)
    await populate(rows, dice)
    ports: Any = SimpleNamespace(
        archives=rows.archives, passages=rows.passages, embedders=OneEmbedder()
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
        found = {passage["fields"]["text"].split()[0] for passage in passages}
        assert found <= {*ATTACHED[org, agent_id]}, (org, agent_id)
        seen[org, agent_id] += len(passages)
    assert all(count > 300 for who, count in seen.items() if ATTACHED[who]), seen
