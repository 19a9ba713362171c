"""The blocks that an agent sees, as Postgres gives them: in their order, and not without bound."""

from __future__ import annotations

import asyncio
import json

import pytest

from libs.eventstore.connection_pool import Database
from services.agent.adapters import block_queries
from services.agent.adapters.block_queries import NOT_SEEN, BlockQueries

BLOCK = "insert into memory.blocks values (%s, 'org-1', now(), %s, %s, %s)"


async def test_blocks_are_seen_in_order_and_together_within_a_bound(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 blocks of a megabyte would be a system message of 500, read and stored at each step."""
    monkeypatch.setattr(block_queries, "SEEN_BYTES_MAX", 25)
    for number in range(1, 5):
        state = {"value": f"ä{number}" * 3, "description": None, "limit": 9, "read_only": False}
        row = [f"block-{number}", number, f"label-{number}", json.dumps(state)]
        await database.fetch(BLOCK, row)
    queries = BlockQueries(database)
    lists = [["block-3", "block-1", "gone", "block-2", "block-4"], ["block-4"], ["gone"]]
    found = await asyncio.gather(*(queries.seen_blocks("org-1", ids) for ids in lists))
    told = [
        [(block.id, block.version, block.label, block.value) for block in blocks]
        for blocks in found
    ]
    assert told == [
        [
            ("block-3", 3, "label-3", "ä3ä3ä3"),
            ("block-1", 1, "label-1", "ä1ä1ä1"),
            ("block-2", 2, "label-2", NOT_SEEN),
            ("block-4", 4, "label-4", NOT_SEEN),
        ],
        [("block-4", 4, "label-4", "ä4ä4ä4")],
        [],
    ]
    assert (found[1][0].limit, found[1][0].read_only, found[1][0].description) == (9, False, None)


async def test_small_blocks_come_in_their_order_as_they_would_one_by_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, described in enumerate((None, 'said "é" €', ""), start=1):
        state = {
            "value": f"é\n{number}",
            "description": described,
            "limit": number,
            "read_only": number == 2,
        }
        await database.fetch(BLOCK, [f"block-{number}", number, "human", json.dumps(state)])
    lists = [["block-3", "gone", "block-1"], ["block-2", "block-1"]]
    queries = BlockQueries(database)
    found = await queries.seen_by_many([("org-1", ids) for ids in lists])
    monkeypatch.setattr(block_queries, "SMALL_BLOCKS", "select 0, 0, '', 0, '', null, ''")
    assert await queries.seen_by_many([("org-1", ids) for ids in lists]) == found
    assert await queries.seen_by_many([("org-2", ids) for ids in lists]) == [[], []]
    assert [[block.id for block in blocks] for blocks in found] == [
        ["block-3", "block-1"],
        ["block-2", "block-1"],
    ]
    second = found[1][0]
    assert (second.value, second.description, second.limit) == ("é\n2", 'said "é" €', 2)
    assert second.read_only
