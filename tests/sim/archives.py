"""What agents remember in the simulated world: clients that insert, share and delete, and what must
hold of archives and passages whatever dies in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import (
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DeletePassages,
    InsertPassages,
    NewPassage,
    own_archive_id,
)
from libs.eventstore.in_memory_database import InMemorySchema
from tests.sim.plan import REMEMBERING, Chore

BATCH = 3

type Send = Callable[[str, Command], Awaitable[Accepted | Rejected]]


def passage_ids(name: str) -> list[str]:
    """The passages that a chore puts in together."""
    return [derived_id("passage", name, str(n)) for n in range(BATCH)]


async def remember(chore: Chore, agent: str, send: Send) -> Accepted | Rejected:
    """Carry out a chore about what an agent remembers; what its insert was told."""
    texts = [
        NewPassage(id=passage_id, text=f"{chore.name} says {n}", tags=[chore.name])
        for n, passage_id in enumerate(passage_ids(chore.name))
    ]
    if chore.kind != "share and delete":
        reply = await send(chore.name, InsertPassages(passages=texts, agent_id=agent))
        if chore.kind == "remember and forget" and isinstance(reply, Accepted):
            forget = DeletePassages(passage_ids=passage_ids(chore.name), agent_id=agent)
            await send(f"{chore.name} forgotten", forget)
        return reply
    archive = derived_id("archive", chore.name)
    await send(f"{chore.name} made", CreateArchive(archive_id=archive, name=chore.name))
    attach = AttachArchive(archive_id=archive, agent_id=agent)
    await send(f"{chore.name} attached", attach)
    reply = await send(chore.name, InsertPassages(passages=texts, archive_id=archive))
    await send(f"{chore.name} deleted", DeleteArchive(archive_id=archive))
    return reply


def check_archives(
    chores: Sequence[Chore],
    told: dict[str, Accepted | Rejected],
    agent: InMemorySchema,
    memory: InMemorySchema,
) -> Iterator[str]:
    """What was put in together is there together; nobody has two archives of his own; nothing is
    left of what is gone."""
    committed = Counter(
        (event.topic, event.aggregate_id)
        for event in memory.committed
        if event.topic.startswith(("passage.", "archive."))
    )
    for chore in chores:
        if chore.kind not in REMEMBERING:
            continue
        created = [
            committed["passage.created", passage_id] for passage_id in passage_ids(chore.name)
        ]
        if created not in ([0] * BATCH, [1] * BATCH):
            yield f"of the passages of {chore.name} were made {created}"
        if isinstance(told.get(chore.name), Accepted) and not all(created):
            yield f"{chore.name} was told of passages that are not there"
        deleted = [
            committed["passage.deleted", passage_id] for passage_id in passage_ids(chore.name)
        ]
        if any(gone > there for gone, there in zip(deleted, created, strict=True)):
            yield f"passages of {chore.name} were deleted more often than made"
    yield from (f"{archive_id} has two archives" for archive_id in second_archives(agent, memory))
    yield from left_over(memory)


def left_over(memory: InMemorySchema) -> list[str]:
    """Passages of archives that are gone."""
    archives = {row["id"] for row in (*memory.rows("archives"), *memory.rows("folders"))}
    rows: list[Any] = memory.rows("passages")
    return [
        f"{row['id']} is in {row['collection_id']}, which is gone"
        for row in rows
        if row["collection_id"] not in archives
    ]


def archives_of_nobody(agent: InMemorySchema, memory: InMemorySchema) -> list[str]:
    """What deleted agents still have."""
    agents = {row["id"] for row in agent.rows("agents")}
    rows: list[Any] = memory.rows("archive_agents")
    return [
        f"{row['agent_id']} has {row['archive_id']}"
        for row in rows
        if row["agent_id"] not in agents
    ]


def second_archives(agent: InMemorySchema, memory: InMemorySchema) -> list[str]:
    """The agents that have a second archive of their own, though none was taken from them."""
    agents = [str(row["id"]) for row in agent.rows("agents")]
    return [agent for agent in agents if own_archive_id(agent, 1) in memory.streams]
