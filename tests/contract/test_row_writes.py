"""What one commit does to rows is what the same writes do one after the other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit
from libs.eventstore.read_model_rows import RowWrites
from tests.contract.ledger import ACCOUNTS
from tests.contract.worlds import World

IDS = ["a", "b", "c", "d", "e"]
OWNERS = ["Ada", "Bob", "Zoe"]
COMMITS = 200
WRITES_MAX = 8

Write = tuple[str, tuple[Any, ...]]


def any_write(random: Random) -> Write:
    """A write as a projection may ask for it; an upsert names every column."""
    kind = random.choice(["upsert", "patch", "patch", "patch_alike", "delete", "delete"])
    if kind == "upsert":
        row = {"owner": random.choice(OWNERS), "cents": random.randrange(3), "fields": {"x": 0}}
        return kind, ({"id": random.choice(IDS), **row},)
    if kind == "delete":
        column = random.choice(["id", "owner", "owner", "cents"])
        values = {"id": IDS, "owner": OWNERS, "cents": [0, 1, 2]}
        return kind, (column, random.choice(values[column]))
    fields: dict[str, Any] = {
        "owner": random.choice(OWNERS),
        "cents": random.randrange(3),
        "fields": {random.choice("xyz"): random.randrange(9)},
    }
    fields = {name: fields[name] for name in random.sample(sorted(fields), random.randint(1, 3))}
    if kind == "patch":
        return kind, ({"id": random.choice(IDS), **fields},)
    return kind, (random.sample(IDS, random.randint(1, 3)), fields)


def written(writes: list[Write]) -> Commit:
    """One commit of all these writes."""
    rows = RowWrites()
    for kind, arguments in writes:
        getattr(rows, kind)(ACCOUNTS, *arguments)
    return Commit(rows=rows)


@pytest.mark.parametrize("seed", range(3))
async def test_writes_of_one_commit_happen_as_if_one_after_the_other(
    world: World, seed: int
) -> None:
    random = Random(seed)
    oracle = InMemoryEventStore(InMemoryDatabase(lambda: 0.0), "ledger", "oracle")
    store = world.store()
    for _ in range(COMMITS):
        writes = [any_write(random) for _ in range(random.randint(1, WRITES_MAX))]
        for write in writes:
            await oracle.commit(written([write]))
        await store.commit(written(writes))
        expected = sorted(oracle.schema.rows("accounts"), key=lambda row: str(row["id"]))
        assert await world.rows() == expected, writes
